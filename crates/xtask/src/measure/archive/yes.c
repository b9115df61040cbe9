/*
 * An archive module for PostgreSQL 18 that accepts each file and stores nothing, so that only the
 * archiver itself is measured. It is built without PostgreSQL's headers, from what they promise.
 */
#include <stdbool.h>

typedef struct {
    int version, func_max_args, index_max_keys, name_data_len, float8_by_value;
    char extra[32];
} Abi;

typedef struct {
    int len;
    Abi abi;
    const char *name, *version;
} Magic;

typedef struct {
    void (*startup)(void *state);
    bool (*check_configured)(void *state);
    bool (*archive_file)(void *state, const char *file, const char *path);
    void (*shutdown)(void *state);
} Callbacks;

static bool configured(void *state) {
    (void) state;
    return true;
}

static bool archive(void *state, const char *file, const char *path) {
    (void) state, (void) file, (void) path;
    return true;
}

const Magic *Pg_magic_func(void) {
    static const Magic magic = {sizeof(Magic), {1800, 100, 32, 64, true, "PostgreSQL"}, 0, 0};
    return &magic;
}

const Callbacks *_PG_archive_module_init(void) {
    static const Callbacks callbacks = {0, configured, archive, 0};
    return &callbacks;
}
