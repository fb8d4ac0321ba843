// Preloaded into processes whose time of day a test sets: adds the seconds that a shared file holds to every reading
// of the real-time clock, and takes them off again from deadlines on that clock, which the kernel waits for.

#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>

// No machine has been up for so long: a deadline beyond it is on the real-time clock, one before it on the monotonic.
enum { LONGEST_UPTIME_S = 1000000000 };

static const int64_t right = 0;
static volatile const int64_t *offset_s = &right;

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

__attribute__((constructor)) static void open_offset(void) {
    const char *path = getenv("RAFTSCHED_TEST_CLOCK");
    int file = path == NULL ? -1 : open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) abort();
    void *shared = mmap(NULL, sizeof right, PROT_READ, MAP_SHARED, file, 0);
    if (shared == MAP_FAILED) abort();
    offset_s = shared;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    static int (*real)(clockid_t, struct timespec *);
    if (real == NULL) real = REAL(clock_gettime);
    int result = real(clock, now);
    if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) now->tv_sec += *offset_s;
    return result;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    struct timespec precise;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &precise);
    now->tv_sec = precise.tv_sec;
    now->tv_usec = precise.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *result) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (result != NULL) *result = now.tv_sec;
    return now.tv_sec;
}

static struct timespec for_kernel(const struct timespec *deadline) {
    struct timespec result = *deadline;
    if (result.tv_sec > LONGEST_UPTIME_S) result.tv_sec -= *offset_s;
    return result;
}

int pthread_cond_timedwait(pthread_cond_t *restrict cond, pthread_mutex_t *restrict mutex,
                           const struct timespec *restrict deadline) {
    static int (*real)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);
    if (real == NULL) real = REAL(pthread_cond_timedwait);
    struct timespec shifted = for_kernel(deadline);
    return real(cond, mutex, &shifted);
}

int sem_timedwait(sem_t *restrict semaphore, const struct timespec *restrict deadline) {
    static int (*real)(sem_t *, const struct timespec *);
    if (real == NULL) real = REAL(sem_timedwait);
    struct timespec shifted = for_kernel(deadline);
    return real(semaphore, &shifted);
}

long syscall(long number, ...) {
    static long (*real)(long, ...);
    if (real == NULL) real = REAL(syscall);
    va_list given;
    long arguments[6];
    va_start(given, number);
    for (int at = 0; at < 6; at++) arguments[at] = va_arg(given, long);
    va_end(given);
    struct timespec shifted;
    if (number == SYS_futex && arguments[1] & FUTEX_CLOCK_REALTIME && arguments[3] != 0) {
        shifted = for_kernel((const struct timespec *)arguments[3]);
        arguments[3] = (long)&shifted;
    }
    return real(number, arguments[0], arguments[1], arguments[2], arguments[3], arguments[4], arguments[5]);
}
