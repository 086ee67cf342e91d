// A library for LD_PRELOAD that sets the time of day of the processes that load it, as an
// administrator or NTP would set it for the whole machine. The file that FOLIO_TEST_CLOCK names
// holds the nanoseconds (int64) to add, and they may change at any time.
//
// Waits until a time of day follow, as they do in the kernel: a step forward ends those whose time
// has come, and a step back prolongs the others. They are cut into short waits on the steady clock,
// after each of which the time of day is looked at. The steady clock itself stays as it is.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const int64_t kSecond = 1000000000;
static const int64_t kSlice = 5000000;

static const volatile int64_t* added;

__attribute__((constructor)) static void Map(void) {
  const char* path = getenv("FOLIO_TEST_CLOCK");
  const int fd = path == NULL ? -1 : open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) abort();
  void* mapped = mmap(NULL, sizeof(*added), PROT_READ, MAP_SHARED, fd, 0);
  if (mapped == MAP_FAILED) abort();
  close(fd);
  added = mapped;
}

static int64_t Nanos(const struct timespec* time) { return time->tv_sec * kSecond + time->tv_nsec; }

static struct timespec Timespec(int64_t nanos) {
  const struct timespec time = {nanos / kSecond, nanos % kSecond};
  return time;
}

static int RealClock(clockid_t clock, struct timespec* time) {
  static int (*real)(clockid_t, struct timespec*);
  if (real == NULL) *(void**)&real = dlsym(RTLD_NEXT, "clock_gettime");
  return real(clock, time);
}

int clock_gettime(clockid_t clock, struct timespec* time) {
  const int result = RealClock(clock, time);
  const int of_day = clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE;
  if (result == 0 && of_day && added != NULL) *time = Timespec(Nanos(time) + *added);
  return result;
}

int gettimeofday(struct timeval* restrict time, void* restrict zone) {
  struct timespec now;
  (void)zone;
  clock_gettime(CLOCK_REALTIME, &now);
  time->tv_sec = now.tv_sec;
  time->tv_usec = now.tv_nsec / 1000;
  return 0;
}

time_t time(time_t* out) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (out != NULL) *out = now.tv_sec;
  return now.tv_sec;
}

// Nanoseconds until this time of day, as it is now.
static int64_t Left(const struct timespec* until) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return Nanos(until) - Nanos(&now);
}

// The end of the next short wait, on the steady clock.
static struct timespec SliceEnd(const struct timespec* until) {
  int64_t slice = Left(until);
  if (slice < 0) slice = 0;
  if (slice > kSlice) slice = kSlice;
  struct timespec now;
  RealClock(CLOCK_MONOTONIC, &now);
  return Timespec(Nanos(&now) + slice);
}

// absl waits by this call.
long syscall(long number, ...) {
  static long (*real)(long, ...);
  if (real == NULL) *(void**)&real = dlsym(RTLD_NEXT, "syscall");
  long arguments[6];
  va_list list;
  va_start(list, number);
  for (int i = 0; i < 6; ++i) arguments[i] = va_arg(list, long);
  va_end(list);
  const long* a = arguments;
  const int operation = (int)a[1];
  const struct timespec* until = (const struct timespec*)a[3];
  const int by_time_of_day = number == SYS_futex &&
                             (operation & FUTEX_CMD_MASK) == FUTEX_WAIT_BITSET &&
                             (operation & FUTEX_CLOCK_REALTIME) != 0 && until != NULL;
  if (!by_time_of_day) return real(number, a[0], a[1], a[2], a[3], a[4], a[5]);
  const long on_steady_clock = operation & ~FUTEX_CLOCK_REALTIME;
  for (;;) {
    const struct timespec end = SliceEnd(until);
    const long result = real(number, a[0], on_steady_clock, a[2], &end, a[4], a[5]);
    if (result == 0 || errno != ETIMEDOUT) return result;
    if (Left(until) > 0) continue;
    errno = ETIMEDOUT;
    return -1;
  }
}

int pthread_cond_timedwait(pthread_cond_t* restrict condition, pthread_mutex_t* restrict mutex,
                           const struct timespec* restrict until) {
  // This is glibc's note that pthread_condattr_setclock has chosen the steady clock.
  if ((condition->__data.__wrefs & 2) != 0) {
    return pthread_cond_clockwait(condition, mutex, CLOCK_MONOTONIC, until);
  }
  for (;;) {
    const struct timespec end = SliceEnd(until);
    const int result = pthread_cond_clockwait(condition, mutex, CLOCK_MONOTONIC, &end);
    if (result != ETIMEDOUT || Left(until) <= 0) return result;
  }
}
