//! The load: prepared requests over keep-alive connections, by one thread that does nothing else.
//!
//! It shares the witness's cores, so it is kept light: it writes bytes made before, waits in one
//! `epoll` call for whatever is answered, and reads the length of an answer's body, nothing more.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};

use crate::logs::Plan;

/// The shortest sleep for want of anything to send: a core that is woken more often does little else.
const NAP_MIN: Duration = Duration::from_micros(100);

/// When requests are sent.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Pace {
    /// The next one on every connection as soon as the last one is answered.
    Closed,
    /// So many a second on average, each due at a random moment (Poisson), whatever was answered by
    /// then. Its time counts from that moment, also while it waits for a free connection or the
    /// generator for a core.
    Open(f64),
}

/// How long each request took, in order of length, and how long all of them.
pub(crate) struct Load {
    latencies: Vec<Duration>,
    pub(crate) took: Duration,
}

impl Load {
    pub(crate) fn rate(&self) -> f64 {
        f64::from(u32::try_from(self.latencies.len()).unwrap()) / self.took.as_secs_f64()
    }

    /// The latency that so many thousandths of the requests did not exceed.
    pub(crate) fn thousandths(&self, thousandths: usize) -> Duration {
        self.latencies[(self.latencies.len() * thousandths / 1000).min(self.latencies.len() - 1)]
    }
}

struct Connection {
    stream: TcpStream,
    answer: Vec<u8>,
    filled: usize,
    /// When the request in work was due.
    due: Instant,
}

pub(crate) struct Connections {
    all: Vec<Connection>,
    poll: std::os::fd::OwnedFd,
}

impl Connections {
    pub(crate) fn open(address: SocketAddr, count: usize) -> Self {
        let poll = epoll::create(epoll::CreateFlags::CLOEXEC).unwrap();
        let all = (0..count)
            .map(|number| {
                let stream = TcpStream::connect(address).unwrap();
                stream.set_nodelay(true).unwrap();
                stream.set_nonblocking(true).unwrap();
                let data = epoll::EventData::new_u64(number as u64);
                epoll::add(&poll, &stream, data, epoll::EventFlags::IN).unwrap();
                Connection { stream, answer: vec![0; 16 * 1024], filled: 0, due: Instant::now() }
            })
            .collect();
        Self { all, poll }
    }

    /// Sends a whole plan and reads every answer; each must be a 200.
    pub(crate) fn drive(&mut self, plan: &Plan, pace: Pace) -> Load {
        // In turn, so that none is idle for long.
        let mut free: VecDeque<usize> = (0..self.all.len()).collect();
        let mut latencies = Vec::with_capacity(plan.len());
        let mut events = Vec::with_capacity(self.all.len());
        let mut moments = Moments::new(pace);
        let mut waiting: VecDeque<Instant> = VecDeque::new();
        let (mut arrived, mut sent) = (0, 0);
        let started = Instant::now();
        while latencies.len() < plan.len() {
            let now = Instant::now();
            match pace {
                Pace::Closed => {
                    arrived = (sent + free.len()).min(plan.len());
                    waiting.resize(arrived - sent, now);
                }
                Pace::Open(_) => {
                    while arrived < plan.len() && moments.next <= now - started {
                        waiting.push_back(started + moments.next);
                        moments.advance();
                        arrived += 1;
                    }
                }
            }
            while let Some((due, number)) = waiting.front().copied().zip(free.front().copied()) {
                waiting.pop_front();
                free.pop_front();
                self.all[number].send(plan.request(sent), due);
                sent += 1;
            }
            let until = moments.next.saturating_sub(started.elapsed()).max(NAP_MIN);
            let timeout = matches!(pace, Pace::Open(_)).then(|| Timespec {
                tv_sec: until.as_secs().try_into().unwrap(),
                tv_nsec: until.subsec_nanos().into(),
            });
            events.clear();
            epoll::wait(&self.poll, spare_capacity(&mut events), timeout.as_ref()).unwrap();
            for event in &events {
                let number = usize::try_from(event.data.u64()).unwrap();
                if let Some(latency) = self.all[number].answered() {
                    latencies.push(latency);
                    free.push_back(number);
                }
            }
        }
        let took = started.elapsed();
        latencies.sort_unstable();
        Load { latencies, took }
    }
}

impl Connection {
    fn send(&mut self, request: &[u8], due: Instant) {
        self.due = due;
        self.filled = 0;
        // The connection's last answer was read, so that its buffers are empty.
        let written = self.stream.write(request).unwrap();
        assert_eq!(written, request.len(), "the witness does not read");
    }

    /// Reads what there is; how long the request took once its answer is complete.
    fn answered(&mut self) -> Option<Duration> {
        match self.stream.read(&mut self.answer[self.filled..]) {
            Ok(0) => panic!("the witness closed a connection"),
            Ok(read) => self.filled += read,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return None,
            Err(error) => panic!("{error}"),
        }
        let answer = &self.answer[..self.filled];
        if !complete(answer) {
            return None;
        }
        assert!(answer.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(answer));
        Some(self.due.elapsed())
    }
}

/// Whether an answer has come in whole.
pub(crate) fn complete(answer: &[u8]) -> bool {
    let Some(head) = answer.windows(4).position(|four| four == b"\r\n\r\n") else { return false };
    let length = answer[..head].split(|byte| *byte == b'\n').find_map(|line| {
        let (name, value) = line.split_at_checked("content-length:".len())?;
        let value = std::str::from_utf8(value).ok()?;
        name.eq_ignore_ascii_case(b"content-length:").then(|| value.trim().parse::<usize>().ok())?
    });
    length.is_some_and(|length| answer.len() >= head + 4 + length)
}

/// The moments of a Poisson process, the same ones each time.
struct Moments {
    next: Duration,
    mean: f64,
    random: u64,
}

impl Moments {
    const fn new(pace: Pace) -> Self {
        let mean = match pace {
            Pace::Closed => 0.0,
            Pace::Open(rate) => 1.0 / rate,
        };
        Self { next: Duration::ZERO, mean, random: 0x9e37_79b9_7f4a_7c15 }
    }

    fn advance(&mut self) {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        // 32 random bits, never zero.
        let uniform =
            (f64::from(u32::try_from(self.random >> 32).unwrap()) + 0.5) / (f64::from(u32::MAX) + 1.0);
        self.next += Duration::from_secs_f64(-uniform.ln() * self.mean);
    }
}
