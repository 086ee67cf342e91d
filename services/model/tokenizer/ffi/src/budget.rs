//! Runs work on a thread of its own that may have so much memory and no more.
//!
//! A template can double a string in each step, so counting its steps does not bound its memory, and an
//! allocation that fails ends the process. Therefore this crate's allocator counts what such a thread holds.
//! A thread that asks for more gets neither memory nor an error, which the allocator could not give: it tells
//! its caller, and sleeps forever with what it holds. So a caller must not try often what has failed.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use folio_boundary::panic_text;

use crate::Result;

#[derive(Clone, Copy)]
pub struct Limits {
    pub bytes: usize,  // held at a time
    pub blocks: usize, // allocations held at a time, which also bounds how deep values are nested
    pub stack: usize,  // bytes, which take memory only as they are used
    pub time: Duration,
}

pub enum Outcome<T> {
    /// The result of the work, and the bytes that the thread holds at its end, with the result.
    Done(Result<T>, usize),
    /// The thread wanted more memory than its limit, and holds the limit forever.
    OutOfMemory,
    /// The thread did not end in time. It may end later.
    OutOfTime,
}

/// Runs `work`, and waits for its end. A panic is an error of the work.
pub fn run<T: Send + 'static>(
    name: &str,
    limits: Limits,
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Outcome<T> {
    let ending = Arc::new(Ending::new());
    let theirs = Arc::clone(&ending);
    let thread = thread::Builder::new().name(name.to_owned()).stack_size(limits.stack);
    let started = thread.spawn(move || {
        ACCOUNT.with(|account| account.open(limits, &theirs.notice));
        let result =
            catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| Err(panic_text(&*panic)));
        let held = ACCOUNT.with(|account| account.close(limits));
        *unpoisoned(&theirs.result) = Some((result, held));
        theirs.notice.give(End::Finished);
    });
    if let Err(error) = started {
        return Outcome::Done(Err(format!("cannot start a thread: {error}")), 0);
    }
    match ending.notice.wait(limits.time) {
        None => Outcome::OutOfTime,
        Some(End::OutOfMemory) => Outcome::OutOfMemory,
        Some(End::Finished) => {
            let (result, held) =
                unpoisoned(&ending.result).take().expect("the thread has finished");
            Outcome::Done(result, held)
        }
    }
}

/// Runs `work` on this thread. The bytes that it has allocated and not freed, less those that others had
/// allocated and it has freed.
pub fn held<T>(work: impl FnOnce() -> T) -> (T, isize) {
    let before = ACCOUNT.with(|account| account.held.get());
    let result = work();
    let after = ACCOUNT.with(|account| account.held.get());
    (result, after.wrapping_sub(before))
}

fn unpoisoned<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Ending<T> {
    result: Mutex<Option<(Result<T>, usize)>>,
    notice: Notice,
}

impl<T> Ending<T> {
    fn new() -> Self {
        Ending { result: Mutex::new(None), notice: Notice::default() }
    }
}

#[derive(Clone, Copy)]
enum End {
    Finished,
    OutOfMemory,
}

#[derive(Default)]
struct Notice {
    end: Mutex<Option<End>>,
    changed: Condvar,
}

impl Notice {
    /// Allocates nothing, because the allocator calls it.
    fn give(&self, end: End) {
        *unpoisoned(&self.end) = Some(end);
        self.changed.notify_one();
    }

    fn wait(&self, time: Duration) -> Option<End> {
        let end = unpoisoned(&self.end);
        let waited = self.changed.wait_timeout_while(end, time, |end| end.is_none());
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

/// The memory that a thread may still allocate. It counts while `notice` is set, which then outlives the thread.
/// `held` always counts what the thread has allocated, less what it has freed.
struct Account {
    held: Cell<isize>,
    bytes: Cell<isize>,
    blocks: Cell<isize>,
    notice: Cell<*const Notice>,
}

thread_local! {
    static ACCOUNT: Account = const {
        Account {
            held: Cell::new(0),
            bytes: Cell::new(0),
            blocks: Cell::new(0),
            notice: Cell::new(std::ptr::null()),
        }
    };
}

impl Account {
    fn open(&self, limits: Limits, notice: &Notice) {
        self.bytes.set(limits.bytes as isize);
        self.blocks.set(limits.blocks as isize);
        self.notice.set(notice);
    }

    /// The bytes that are held now, after which nothing is counted.
    fn close(&self, limits: Limits) -> usize {
        self.notice.set(std::ptr::null());
        (limits.bytes as isize - self.bytes.get()).max(0) as usize
    }

    fn take(&self, bytes: usize, blocks: isize) {
        self.held.set(self.held.get().wrapping_add(bytes as isize));
        let notice = self.notice.get();
        if notice.is_null() {
            return;
        }
        // A layout has at most isize::MAX bytes.
        let left = (self.bytes.get() - bytes as isize, self.blocks.get() - blocks);
        if left.0 < 0 || left.1 < 0 {
            self.notice.set(std::ptr::null());
            // Safety: the thread's own closure holds the notice, and it never ends.
            unsafe { &*notice }.give(End::OutOfMemory);
            loop {
                thread::sleep(Duration::from_secs(3600));
            }
        }
        self.bytes.set(left.0);
        self.blocks.set(left.1);
    }

    fn give_back(&self, bytes: usize, blocks: isize) {
        self.held.set(self.held.get().wrapping_sub(bytes as isize));
        if !self.notice.get().is_null() {
            self.bytes.set(self.bytes.get() + bytes as isize);
            self.blocks.set(self.blocks.get() + blocks);
        }
    }
}

struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

// Safety: all memory is the system's. The account is a plain thread-local without a destructor.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ACCOUNT.with(|account| account.take(layout.size(), 1));
        System.alloc(layout)
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        ACCOUNT.with(|account| account.take(layout.size(), 1));
        System.alloc_zeroed(layout)
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        System.dealloc(block, layout);
        ACCOUNT.with(|account| account.give_back(layout.size(), 1));
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ACCOUNT.with(|account| {
            account.take(size.saturating_sub(layout.size()), 0);
            account.give_back(layout.size().saturating_sub(size), 0);
        });
        System.realloc(block, layout, size)
    }
}
