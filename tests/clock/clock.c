// A system clock of a program's own, for LD_PRELOAD: it is ahead of the machine's by the number of
// seconds, which may be negative, in the file TSTAR_TEST_CLOCK, as if an operator had set it.
//
// Like the kernel's, it also decides when waits until a time of it end: cnd_timedwait of librdkafka.
// Other waits of the program use the monotonic clock, which is not changed.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/time.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

static long offset(void) {
    char text[32] = "0";
    const char *path = getenv("TSTAR_TEST_CLOCK");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0) return 0;
    ssize_t length = read(file, text, sizeof text - 1);
    close(file);
    text[length > 0 ? length : 0] = 0;
    return strtol(text, NULL, 10);
}

static int read_clock(clockid_t id, struct timespec *time) {
    static int (*next)(clockid_t, struct timespec *);
    if (!next) next = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    return next(id, time);
}

int clock_gettime(clockid_t id, struct timespec *time) {
    int failed = read_clock(id, time);
    if (!failed && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE)) time->tv_sec += offset();
    return failed;
}

int timespec_get(struct timespec *time, int base) {
    return base == TIME_UTC && !clock_gettime(CLOCK_REALTIME, time) ? base : 0;
}

int gettimeofday(struct timeval *restrict time, void *restrict zone) {
    (void)zone;
    struct timespec now;
    int failed = clock_gettime(CLOCK_REALTIME, &now);
    time->tv_sec = now.tv_sec;
    time->tv_usec = now.tv_nsec / 1000;
    return failed;
}

time_t time(time_t *out) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (out) *out = now.tv_sec;
    return now.tv_sec;
}

static long until(const struct timespec *end) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (end->tv_sec - now.tv_sec) * 1000000000L + end->tv_nsec - now.tv_nsec;
}

// A spurious return is allowed, but would end a wait that a clock set back makes longer: so it waits in
// parts, each by the machine's clock.
int cnd_timedwait(cnd_t *restrict condition, mtx_t *restrict mutex, const struct timespec *restrict end) {
    for (;;) {
        long left = until(end), part = 200000000L;
        if (left <= 0) return thrd_timedout;
        if (left < part) part = left;
        struct timespec stop;
        read_clock(CLOCK_REALTIME, &stop);
        stop.tv_nsec += part;
        stop.tv_sec += stop.tv_nsec / 1000000000L;
        stop.tv_nsec %= 1000000000L;
        int failed = pthread_cond_timedwait((pthread_cond_t *)condition, (pthread_mutex_t *)mutex, &stop);
        if (!failed) return thrd_success;
    }
}
