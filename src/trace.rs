//! `warpsim trace`: a timeline for Perfetto or chrome://tracing, in the Trace Event Format of Chrome's
//! tracing: a microsecond of the timeline is a core cycle.

use std::collections::BTreeMap;
use std::io::{self, BufWriter, Write};

use serde_json::{Value, json};
use sim_core::engine::samples::Sample;
use sim_core::report::{DeviceReport, KernelReport};
use sim_core::sm::states::STATES;
use sim_core::sm::timeline::{Event, Timeline, TimelineOptions};
use sim_memory::vocabulary::Cycle;

use crate::cli::run;
use crate::cli::trace::TraceArgs;
use crate::console::status;
use crate::files::{self, Output};

/// Tracks of warps follow those of block slots.
const WARPS: u64 = 1000;

/// Runs and writes the trace; gives the exit status.
pub fn trace(args: &TraceArgs) -> u8 {
    run::trace(
        &args.run,
        &args.output,
        |sms| options(args, sms),
        |timelines, report| write(args, timelines, report),
    )
}

/// What is recorded on a chip of so many SMs.
fn options(args: &TraceArgs, sms: u32) -> Result<TimelineOptions, String> {
    let number = |text: &String| match text.parse() {
        Ok(sm) if sm < sms => Ok(sm),
        _ => Err(format!("--sms takes numbers below {sms} or `all`, not `{text}`")),
    };
    let list: Vec<u32> = match args.sms.iter().any(|text| text == "all") {
        true => (0..sms).collect(),
        false => args.sms.iter().map(number).collect::<Result<_, _>>()?,
    };
    if args.from >= args.to {
        return Err(format!("--from {} must be less than --to {}", args.from, args.to));
    }
    // Each has its share, so that what is kept does not depend on who was first.
    let most = (args.events / u64::from(sms)).max(args.events / (2 * list.len() as u64)).max(1) as usize;
    Ok(TimelineOptions { sms: list, from: args.from, to: args.to, most })
}

/// Writes the file, and says what is in it.
fn write(args: &TraceArgs, timelines: &[Timeline], report: &DeviceReport) -> u8 {
    let written = Output::create(&args.output).and_then(|file| {
        let mut out = Writer { out: BufWriter::new(file), written: 0 };
        out.begin()?;
        for timeline in timelines {
            Track { timeline, kernels: &report.kernels, from: args.from, out: &mut out }.write()?;
        }
        counters(args, report, &mut out)?;
        out.end()
    });
    match written {
        Ok(events) => {
            eprintln!("wrote {events} events to {}; ui.perfetto.dev shows them", args.output.display());
            let full = timelines.iter().filter_map(|t| Some((t.full_at?, t.sm))).min();
            if let Some((at, sm)) = full {
                eprintln!(
                    "the event buffer of SM {sm} is full from core cycle {at}: raise --events or narrow the trace with --from, --to or --sms"
                );
            }
            status::DONE
        }
        Err(error) => {
            eprintln!("error: {}", files::unwritable(&args.output, &error));
            status::BAD_INPUT
        }
    }
}

/// Counter tracks of the samples: of the chip in a process of its own, and of the SMs whose warps are shown.
fn counters(args: &TraceArgs, report: &DeviceReport, out: &mut Writer) -> io::Result<()> {
    let Some(samples) = &report.samples else { return Ok(()) };
    let list: Vec<&Sample> =
        samples.list.iter().filter(|sample| sample.to > args.from && sample.from < args.to).collect();
    let shown = |sm: u32| args.sms.iter().any(|text| text == "all" || text.parse() == Ok(sm));
    let chip = report.sms;
    out.put(&json!({"ph": "M", "pid": chip, "name": "process_name", "args": {"name": "chip"}}))?;
    out.put(&json!({"ph": "M", "pid": chip, "name": "process_sort_index", "args": {"sort_index": -1}}))?;
    for sample in &list {
        let (at, cycles) = (sample.from.max(args.from), (sample.to - sample.from) as f64);
        let per_cycle = |name: &str, unit: u64| (sample.figures[name] * unit) as f64 / cycles;
        let mut slots = json!({"issued": per_cycle("issued", 1)});
        for (reason, count) in &report.stalls {
            // All samples have the same series; what never occurs has none.
            if *count > 0 {
                slots[reason] = json!(sample.stalls.get(reason.as_str()).map_or(0.0, |n| *n as f64 / cycles));
            }
        }
        let tracks = [
            ("issue slots per cycle", slots),
            ("resident warps", json!({"warps": per_cycle("warp_cycles", 1)})),
            ("L1 lines per cycle", json!({"lines": per_cycle("l1_transactions", 1)})),
            ("L2 bytes per cycle", json!({"bytes": per_cycle("l2_bytes", 1)})),
            ("DRAM bytes per cycle", json!({"bytes": per_cycle("dram_bytes", 1)})),
        ];
        for (name, values) in tracks {
            out.put(&json!({"ph": "C", "pid": chip, "name": name, "ts": at, "args": values}))?;
        }
        for (sm, [issued, warps]) in (0..).zip(&sample.by_sm).filter(|(sm, _)| shown(*sm)) {
            for (name, value) in [("issue slots used per cycle", issued), ("resident warps", warps)] {
                let value = json!({"mean": *value as f64 / cycles});
                out.put(&json!({"ph": "C", "pid": sm, "name": name, "ts": at, "args": value}))?;
            }
        }
    }
    Ok(())
}

/// Events one after the other.
struct Writer {
    out: BufWriter<Output>,
    written: u64,
}

impl Writer {
    fn begin(&mut self) -> io::Result<()> {
        let about = json!({"made by": format!("warpsim {}", crate::VERSION), "unit": "1 µs is a core cycle"});
        write!(self.out, "{{\"displayTimeUnit\":\"ns\",\"otherData\":{about},\"traceEvents\":[")
    }

    fn put(&mut self, event: &Value) -> io::Result<()> {
        let comma = if self.written > 0 { "," } else { "" };
        self.written += 1;
        write!(self.out, "{comma}\n{event}")
    }

    /// Ends the file; gives how many events it holds.
    fn end(mut self) -> io::Result<u64> {
        self.out.write_all(b"\n]}\n")?;
        self.out.into_inner().map_err(io::IntoInnerError::into_error)?.finish()?;
        Ok(self.written)
    }
}

/// What one SM recorded in one synchronisation.
struct Track<'t> {
    timeline: &'t Timeline,
    kernels: &'t [KernelReport],
    from: Cycle,
    out: &'t mut Writer,
}

impl Track<'_> {
    fn write(&mut self) -> io::Result<()> {
        let mut blocks: BTreeMap<u32, (Cycle, u32, u64)> = BTreeMap::new();
        let mut states: BTreeMap<u32, (Cycle, u8)> = BTreeMap::new();
        let mut tracks: BTreeMap<u64, String> = BTreeMap::new();
        let mut texts: BTreeMap<(u32, u32), (String, u32)> = BTreeMap::new();
        let sm = self.timeline.sm;
        self.out.put(
            &json!({"ph": "M", "pid": sm, "name": "process_name", "args": {"name": format!("SM {sm}")}}),
        )?;
        self.out
            .put(&json!({"ph": "M", "pid": sm, "name": "process_sort_index", "args": {"sort_index": sm}}))?;
        for (i, event) in self.timeline.events.iter().enumerate() {
            match *event {
                Event::BlockBegins { at, slot, grid_id, number } => {
                    blocks.insert(slot, (at, grid_id, number));
                }
                Event::BlockEnds { at, slot } => {
                    if let Some(block) = blocks.remove(&slot) {
                        self.block(&mut tracks, slot, block, at)?;
                    }
                }
                Event::State { at, split, state } => {
                    if let Some(old) = states.insert(split, (at, state)) {
                        self.state(&mut tracks, split, old, at)?;
                    }
                }
                Event::Issue { at, split, code, pc, lanes } => {
                    let (text, line) = text(self.timeline, &mut texts, code, pc);
                    let tid = self.warp(&mut tracks, split);
                    self.out.put(&json!({
                        "ph": "X", "cat": "issue", "name": text, "pid": sm, "tid": tid, "ts": at, "dur": 1,
                        "args": {"lanes": lanes, "line": line},
                    }))?;
                }
                Event::Access { from, to, warp, code, pc, lanes, address } => {
                    let (text, line) = text(self.timeline, &mut texts, code, pc);
                    let name =
                        text.split_whitespace().find(|word| !word.starts_with('@')).unwrap_or_default();
                    let id = format!("{sm}.{i}");
                    let about = json!({
                        "warp": warp, "lanes": lanes, "lowest address": format!("{address:#x}"), "line": line, "text": text,
                    });
                    for (phase, at) in [("b", from), ("e", to)] {
                        self.out.put(&json!({
                            "ph": phase, "cat": "memory", "name": name, "id": id, "pid": sm, "tid": 0, "ts": at,
                            "args": if phase == "b" { about.clone() } else { json!({}) },
                        }))?;
                    }
                }
            }
        }
        // What had not ended is shown up to the end of the record.
        let end = self.timeline.full_at.unwrap_or(self.timeline.end);
        for (slot, block) in blocks {
            self.block(&mut tracks, slot, block, end)?;
        }
        for (split, old) in states {
            self.state(&mut tracks, split, old, end)?;
        }
        for (tid, name) in tracks {
            self.out.put(
                &json!({"ph": "M", "pid": sm, "tid": tid, "name": "thread_name", "args": {"name": name}}),
            )?;
            self.out.put(
                &json!({"ph": "M", "pid": sm, "tid": tid, "name": "thread_sort_index", "args": {"sort_index": tid}}),
            )?;
        }
        Ok(())
    }

    fn block(
        &mut self,
        tracks: &mut BTreeMap<u64, String>,
        slot: u32,
        (begin, grid, number): (Cycle, u32, u64),
        end: Cycle,
    ) -> io::Result<()> {
        if end < self.from {
            return Ok(());
        }
        let kernel = self.kernels.get(grid as usize).map_or("?", |kernel| kernel.name.as_str());
        let tid = u64::from(slot) + 1;
        tracks.entry(tid).or_insert_with(|| format!("block slot {slot}"));
        self.out.put(&json!({
            "ph": "X", "cat": "block", "name": format!("{kernel} block {number}"), "pid": self.timeline.sm, "tid": tid,
            "ts": begin, "dur": end - begin, "args": {"launch": grid},
        }))
    }

    fn state(
        &mut self,
        tracks: &mut BTreeMap<u64, String>,
        split: u32,
        (begin, state): (Cycle, u8),
        end: Cycle,
    ) -> io::Result<()> {
        // The first state is that of a slot without a split.
        if state == 0 || end <= begin {
            return Ok(());
        }
        let tid = self.warp(tracks, split);
        self.out.put(&json!({
            "ph": "X", "cat": "state", "name": STATES[usize::from(state)], "pid": self.timeline.sm, "tid": tid,
            "ts": begin, "dur": end - begin,
        }))
    }

    fn warp(&self, tracks: &mut BTreeMap<u64, String>, split: u32) -> u64 {
        let splits = self.timeline.splits_per_warp;
        let tid = WARPS + u64::from(split);
        tracks.entry(tid).or_insert_with(|| match splits {
            1 => format!("warp {split}"),
            _ => format!("warp {} split {}", split / splits, split % splits),
        });
        tid
    }
}

/// Text and line of an operation.
fn text(
    timeline: &Timeline,
    texts: &mut BTreeMap<(u32, u32), (String, u32)>,
    code: u32,
    pc: u32,
) -> (String, u32) {
    let found = texts.entry((code, pc)).or_insert_with(|| {
        let program = timeline.codes.get(code as usize).map(|code| &code.program);
        let line = program.and_then(|p| p.info.get(pc as usize)).map_or(0, |info| info.line);
        (program.map_or(String::new(), |program| program.text(pc)), line)
    });
    found.clone()
}
