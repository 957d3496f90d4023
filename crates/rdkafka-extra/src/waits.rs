//! Waits of librdkafka that do not depend on the system's clock.
//!
//! librdkafka waits with C11's `cnd_timedwait`, until a time of the system's clock. If that clock
//! is set back by an hour meanwhile, the wait takes an hour longer: no heartbeat is sent, and a
//! poll of 20 ms does not end (confluentinc/librdkafka#2145). The function of that name here, with
//! which librdkafka is linked because it is in the same program, waits by the monotonic clock.

use std::ffi::c_int;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use libc::{clockid_t, pthread_cond_t, pthread_mutex_t, timespec};

// <threads.h> of glibc.
const THRD_SUCCESS: c_int = 0;
const THRD_ERROR: c_int = 2;
const THRD_TIMEDOUT: c_int = 4;

unsafe extern "C" {
    // glibc 2.30; the libc crate lacks it.
    fn pthread_cond_clockwait(
        condition: *mut pthread_cond_t,
        mutex: *mut pthread_mutex_t,
        clock: clockid_t,
        end: *const timespec,
    ) -> c_int;
}

type TimedWait =
    unsafe extern "C" fn(*mut pthread_cond_t, *mut pthread_mutex_t, *const timespec) -> c_int;

/// Makes sure that the function below is linked: a library's is left out if nothing refers to it.
pub fn link() {
    let function: TimedWait = cnd_timedwait;
    std::hint::black_box(function);
}

/// Time left until `end` by the system's clock; `None` if it has passed.
fn remaining(end: &timespec) -> Option<Duration> {
    let end = Duration::new(end.tv_sec.try_into().ok()?, end.tv_nsec.try_into().ok()?);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    end.checked_sub(now).filter(|left| !left.is_zero())
}

/// The time of the monotonic clock after this duration.
fn after(duration: Duration) -> Option<timespec> {
    let mut now = timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: it writes to a value of ours.
    let code = unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    let now = Duration::new(now.tv_sec.try_into().ok()?, now.tv_nsec.try_into().ok()?);
    let end = now.checked_add(duration).filter(|_| code == 0)?;
    Some(timespec { tv_sec: end.as_secs().try_into().ok()?, tv_nsec: end.subsec_nanos().into() })
}

/// C11's: waits until it is signalled, or until `end`, a time of the system's clock as it is now.
///
/// # Safety
/// As that of the C library: condition and mutex are initialised, this thread has locked the mutex,
/// and `end` points to a time. In glibc a `cnd_t` is a `pthread_cond_t`, and a `mtx_t` a
/// `pthread_mutex_t`.
#[unsafe(no_mangle)]
unsafe extern "C" fn cnd_timedwait(
    condition: *mut pthread_cond_t,
    mutex: *mut pthread_mutex_t,
    end: *const timespec,
) -> c_int {
    // SAFETY: the caller passes a time.
    let end = unsafe { &*end };
    let Some(left) = remaining(end) else { return THRD_TIMEDOUT };
    let Some(end) = after(left) else { return THRD_ERROR };
    // SAFETY: the caller's condition and mutex, and a time of ours.
    let code =
        unsafe { pthread_cond_clockwait(condition, mutex, libc::CLOCK_MONOTONIC, &raw const end) };
    match code {
        0 => THRD_SUCCESS,
        libc::ETIMEDOUT => THRD_TIMEDOUT,
        _ => THRD_ERROR,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    /// Waits for a signal that does not come until a time of the system's clock.
    fn wait(until: Duration) -> c_int {
        let mut condition = libc::PTHREAD_COND_INITIALIZER;
        let mut mutex = libc::PTHREAD_MUTEX_INITIALIZER;
        // SAFETY: an initialised mutex of ours.
        assert_eq!(unsafe { libc::pthread_mutex_lock(&raw mut mutex) }, 0);
        let end = timespec {
            tv_sec: until.as_secs().try_into().unwrap(),
            tv_nsec: until.subsec_nanos().into(),
        };
        // SAFETY: both are initialised, and the mutex is locked.
        unsafe { cnd_timedwait(&raw mut condition, &raw mut mutex, &raw const end) }
    }

    #[test]
    fn a_wait_ends_with_its_time() {
        let (now, began) = (SystemTime::now().duration_since(UNIX_EPOCH).unwrap(), Instant::now());
        let length = Duration::from_millis(30);
        assert_eq!(wait(now), THRD_TIMEDOUT);
        assert_eq!(wait(now + length), THRD_TIMEDOUT);
        assert!(began.elapsed() >= length);
    }
}
