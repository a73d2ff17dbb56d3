/* Sends every start of a C or C++ compiler to the recorder's shim, by whatever path the build calls it.
 *
 * Preloaded (LD_PRELOAD) into the processes of a recorded build. MLGO_RECORD_SHIMS names the folder with the two shims,
 * `cc` and `c++`. The shim sets MLGO_RECORD_INSIDE for the compiler that it starts, which is then left alone.
 *
 * make and others call exec between vfork and the end of the child, where the parent's memory is shared: nothing here
 * allocates from the heap or changes a global after the constructor has run.
 */
#define _GNU_SOURCE
#include <alloca.h>
#include <dlfcn.h>
#include <limits.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern char **environ;

typedef int (*execve_fn)(const char *, char *const[], char *const[]);
typedef int (*execvpe_fn)(const char *, char *const[], char *const[]);
typedef int (*spawn_fn)(pid_t *, const char *, const posix_spawn_file_actions_t *, const posix_spawnattr_t *,
                        char *const[], char *const[]);

static execve_fn real_execve;
static execvpe_fn real_execvpe;
static spawn_fn real_spawn;
static spawn_fn real_spawnp;
static char shims[PATH_MAX];

__attribute__((constructor)) static void start(void) {
  real_execve = (execve_fn)dlsym(RTLD_NEXT, "execve");
  real_execvpe = (execvpe_fn)dlsym(RTLD_NEXT, "execvpe");
  real_spawn = (spawn_fn)dlsym(RTLD_NEXT, "posix_spawn");
  real_spawnp = (spawn_fn)dlsym(RTLD_NEXT, "posix_spawnp");
  const char *folder = getenv("MLGO_RECORD_SHIMS");
  if (folder && strlen(folder) < sizeof shims - 8)
    strcpy(shims, folder);
}

static int ends_with_stem(const char *name, size_t length, const char *stem) {
  size_t size = strlen(stem);
  if (length < size || strncmp(name + length - size, stem, size) != 0)
    return 0;
  return length == size || name[length - size - 1] == '-';
}

/* 1 for a C compiler's name, 2 for a C++ compiler's: [TARGET-]clang[-VERSION] and so on; 0 for anything else. */
static int compiler_kind(const char *path) {
  const char *slash = strrchr(path, '/');
  const char *name = slash ? slash + 1 : path;
  size_t length = strlen(name);
  size_t digits = strspn(name + length - (length > 0), "0123456789") ? length : 0;
  while (digits > 0 && strchr("0123456789.", name[digits - 1]))
    --digits;
  if (digits > 1 && digits < length && name[digits - 1] == '-')
    length = digits - 1;
  static const char *const cxx[] = {"clang++", "g++", "c++"};
  static const char *const c[] = {"clang", "gcc", "cc", "c99", "c89"};
  for (size_t i = 0; i < sizeof cxx / sizeof *cxx; ++i)
    if (ends_with_stem(name, length, cxx[i]))
      return 2;
  for (size_t i = 0; i < sizeof c / sizeof *c; ++i)
    if (ends_with_stem(name, length, c[i]))
      return 1;
  return 0;
}

static int is_inside(char *const envp[]) {
  for (; envp && *envp; ++envp)
    if (strncmp(*envp, "MLGO_RECORD_INSIDE=", 19) == 0)
      return 1;
  return 0;
}

/* The shim to start instead of `path`, in `buffer`; NULL if `path` is no compiler or not ours to catch. */
static const char *shim_for(const char *path, char *const envp[], char *buffer) {
  int kind = path && shims[0] ? compiler_kind(path) : 0;
  if (!kind || is_inside(envp) || strncmp(path, shims, strlen(shims)) == 0)
    return NULL;
  snprintf(buffer, PATH_MAX, "%s/%s", shims, kind == 2 ? "c++" : "cc");
  return buffer;
}

int execve(const char *path, char *const argv[], char *const envp[]) {
  char buffer[PATH_MAX];
  const char *shim = shim_for(path, envp, buffer);
  /* A compiler that is not there must fail as it would without us: PATH searches rely on it. */
  if (shim && access(path, X_OK) == 0)
    path = shim;
  return real_execve(path, argv, envp);
}

int execvpe(const char *file, char *const argv[], char *const envp[]) {
  char buffer[PATH_MAX];
  const char *shim = shim_for(file, envp, buffer);
  return real_execvpe(shim ? shim : file, argv, envp);
}

int execv(const char *path, char *const argv[]) { return execve(path, argv, environ); }

int execvp(const char *file, char *const argv[]) { return execvpe(file, argv, environ); }

int posix_spawn(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions,
                const posix_spawnattr_t *attributes, char *const argv[], char *const envp[]) {
  char buffer[PATH_MAX];
  const char *shim = shim_for(path, envp, buffer);
  if (shim && access(path, X_OK) == 0)
    path = shim;
  return real_spawn(pid, path, actions, attributes, argv, envp);
}

int posix_spawnp(pid_t *pid, const char *file, const posix_spawn_file_actions_t *actions,
                 const posix_spawnattr_t *attributes, char *const argv[], char *const envp[]) {
  char buffer[PATH_MAX];
  const char *shim = shim_for(file, envp, buffer);
  return real_spawnp(pid, shim ? shim : file, actions, attributes, argv, envp);
}

/* The variadic forms: count, then copy to the stack. `last` is where the environment follows the final NULL. */
#define COLLECT(first, arguments, count)                                                                               \
  size_t count = 1;                                                                                                    \
  va_list counting, taking;                                                                                            \
  va_start(counting, first);                                                                                           \
  va_copy(taking, counting);                                                                                           \
  while (va_arg(counting, const char *))                                                                               \
    ++count;                                                                                                           \
  va_end(counting);                                                                                                    \
  char **arguments = alloca((count + 1) * sizeof *arguments);                                                          \
  arguments[0] = (char *)first;                                                                                        \
  for (size_t i = 1; i <= count; ++i)                                                                                  \
    arguments[i] = va_arg(taking, char *);

int execl(const char *path, const char *first, ...) {
  COLLECT(first, arguments, count)
  va_end(taking);
  return execve(path, arguments, environ);
}

int execlp(const char *file, const char *first, ...) {
  COLLECT(first, arguments, count)
  va_end(taking);
  return execvpe(file, arguments, environ);
}

int execle(const char *path, const char *first, ...) {
  COLLECT(first, arguments, count)
  char *const *envp = va_arg(taking, char *const *);
  va_end(taking);
  return execve(path, arguments, envp);
}
