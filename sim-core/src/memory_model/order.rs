//! The order in which events of several components are processed.

use sim_memory::observation::Event;
use sim_memory::vocabulary::Cycle;

/// What a component has logged, in its order; with the SM, where it is one.
pub type SourceLog = (Option<u32>, Vec<(Cycle, Event)>);

/// Cycles that are counted one by one, at most; and for each event.
const MOST_CYCLES: [Cycle; 2] = [1 << 14, 8];

/// Events in the order of cycles; of one cycle, in that of the components, and then of their logs.
#[derive(Debug, Default)]
pub struct Order {
    /// Places of components and of events in their logs.
    pub events: Vec<(u32, u32)>,
    /// For each cycle the place of its next event.
    next: Vec<u32>,
}

impl Order {
    /// Brings the events of these logs in order.
    pub fn sort(&mut self, logs: &[SourceLog]) {
        let cycles = || logs.iter().flat_map(|log| &log.1).map(|event| event.0);
        self.events.clear();
        let Some(first) = cycles().min() else { return };
        let (span, count) = cycles().fold((0, 0), |(span, count), at| (span.max(at - first), count + 1));
        let events = logs
            .iter()
            .zip(0..)
            .flat_map(|(log, source)| log.1.iter().zip(0..).map(move |(_, i)| (source, i)));
        if span >= MOST_CYCLES[0].min(MOST_CYCLES[1] * count) {
            self.events.extend(events);
            self.events.sort_by_key(|(source, i)| logs[*source as usize].1[*i as usize].0);
            return;
        }
        self.next.clear();
        self.next.resize(span as usize + 2, 0);
        cycles().for_each(|at| self.next[(at - first) as usize + 1] += 1);
        let mut before = 0;
        for next in &mut self.next {
            before += *next;
            *next = before;
        }
        self.events.resize(count as usize, (0, 0));
        for (at, event) in cycles().zip(events) {
            let next = &mut self.next[(at - first) as usize];
            self.events[*next as usize] = event;
            *next += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_in_the_order_of_cycles_components_and_logs() {
        let mut order = Order::default();
        let mut random = 1u64;
        for (sources, most, span) in [
            (0, 0, 1),
            (1, 1, 1),
            (3, 40, 7),
            (5, 400, 2048),
            (2, 3, 1 << 40),
            (4, 3000, 1 << 15),
            (3, 9, 30),
        ] {
            let mut below = |limit: u64| {
                random =
                    random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (random >> 20) % limit
            };
            let event = || Event::Returned { transaction: 1 };
            let logs: Vec<SourceLog> = (0..sources)
                .map(|source| {
                    (Some(source), (0..below(most + 1)).map(|_| (9 + below(span), event())).collect())
                })
                .collect();
            let mut expected = Vec::new();
            for (source, log) in logs.iter().enumerate() {
                expected
                    .extend(log.1.iter().enumerate().map(|(i, event)| (event.0, source as u32, i as u32)));
            }
            expected.sort_unstable();
            order.sort(&logs);
            let expected: Vec<_> = expected.into_iter().map(|(_, source, i)| (source, i)).collect();
            assert_eq!(order.events, expected, "{sources} {most} {span}");
        }
    }
}
