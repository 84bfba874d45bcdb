#![allow(missing_docs, unsafe_code, clippy::all)]
use std::alloc::{GlobalAlloc, Layout};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::*};
use burn::tensor::{Device, Tensor, TensorData};
use kindling_layers::pass::{TrainingPass, training};
use kindling_layers::Classifier;
use kindling_zoo::{ModelOptions, find};
const N: usize = 1 << 16;
struct T { blocks: [(usize, usize); N], n: usize, snap: [(usize,usize); N], sn: usize, cur: usize, peak: usize, small: usize, snap_small: usize }
static TR: Mutex<T> = Mutex::new(T { blocks: [(0, 0); N], n: 0, snap: [(0,0); N], sn: 0, cur: 0, peak: 0, small: 0, snap_small: 0 });
static SEQ: AtomicUsize = AtomicUsize::new(0);
struct A;
unsafe impl GlobalAlloc for A {
    unsafe fn alloc(&self, l: Layout) -> *mut u8 { let p = unsafe { std::alloc::System.alloc(l) }; on(p as usize, l.size()); p }
    unsafe fn alloc_zeroed(&self, l: Layout) -> *mut u8 { let p = unsafe { std::alloc::System.alloc_zeroed(l) }; on(p as usize, l.size()); p }
    unsafe fn dealloc(&self, p: *mut u8, l: Layout) { off(p as usize, l.size()); unsafe { std::alloc::System.dealloc(p, l) } }
    unsafe fn realloc(&self, p: *mut u8, l: Layout, s: usize) -> *mut u8 { off(p as usize, l.size()); let q = unsafe { std::alloc::System.realloc(p, l, s) }; on(q as usize, s); q }
}
fn on(p: usize, s: usize) { let mut t = TR.lock().unwrap(); let t = &mut *t; if s < 4096 { t.small += s; } else { SEQ.fetch_add(1, Relaxed); t.blocks[t.n] = (p, s); t.n += 1; }
  t.cur += s; if t.cur > t.peak { t.peak = t.cur; if t.peak > 20_000_000 && s>4096 { t.snap[..t.n].copy_from_slice(&t.blocks[..t.n]); t.sn = t.n; t.snap_small = t.small; } } }
fn off(p: usize, s: usize) { let mut t = TR.lock().unwrap(); if s < 4096 { t.small -= s; } else if let Some(i) = (0..t.n).rev().find(|i| t.blocks[*i].0 == p) { let n = t.n; t.blocks.copy_within(i+1..n, i); t.n -= 1; } t.cur -= s; }
#[global_allocator]
static G: A = A;
fn main() {
    let a: Vec<String> = std::env::args().collect();
    let (size, batch): (usize, usize) = (a[2].parse().unwrap(), a[3].parse().unwrap());
    let device = Device::flex();
    let model = find(&a[1]).unwrap().build(&ModelOptions { in_channels: 3, classes: 2, ..ModelOptions::imagenet() }, &device).unwrap();
    let model = burn::module::Module::train::<>(model);
    let (base, basesmall) = { let mut t = TR.lock().unwrap(); t.peak = t.cur; (t.cur, t.small) };
    let x = vec![0.5f32; batch * 3 * size * size];
    let x = Tensor::<4>::from_inner(Tensor::from_data(TensorData::new(x, [batch, 3, size, size]), &device));
    let (loss, _s) = training(TrainingPass::whole_batch(batch), || model.forward(x).sum());
    let f = { let t = TR.lock().unwrap(); (t.peak - base, t.cur - base, t.small - basesmall) };
    println!("after forward peak {f:?}");
    let g = loss.backward();
    let f = { let t = TR.lock().unwrap(); (t.peak - base, t.cur - base, t.snap_small - basesmall) };
    println!("base {base} peak, now, small at peak {f:?}");
    let mut v: Vec<usize> = Vec::with_capacity(N);
    { let t = TR.lock().unwrap(); v.extend(t.snap[..t.sn].iter().map(|x| x.1)); }
    let order: Vec<usize> = v.clone();
    v.sort(); 
    println!("sum {} count {}", v.iter().sum::<usize>(), v.len());
    println!("last allocated (oldest first, >=100k): {:?}", order.iter().filter(|s| **s >= 100_000).collect::<Vec<_>>());
    drop(g);
}
