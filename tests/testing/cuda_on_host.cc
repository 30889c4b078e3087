#include "tests/testing/cuda_on_host.h"

#include <setjmp.h>
#include <ucontext.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "absl/types/span.h"
#include "runtime/base/status.h"

namespace tethys::cuda {
namespace {

constexpr size_t kStackBytes = 64 << 10;

enum class State { kReady, kAtWarp, kAtBlock, kReturned };

// A thread of a kernel, which later blocks reuse. Threads switch with _setjmp and _longjmp, which unlike
// swapcontext make no system call.
struct Thread {
  jmp_buf context;
  bool started = false;
  uint3 index;
  State state = State::kReady;
  std::unique_ptr<char[]> stack{new char[kStackBytes]};
};

// The state of the running block. These variables are global because no kernel takes them as arguments.
std::vector<Thread> all_threads;  // As many as the largest launch needed; every block uses the first ones.
Thread* current = nullptr;
jmp_buf scheduler;
absl::FunctionRef<void()>* running_kernel = nullptr;

// Returns when the scheduler resumes the current thread.
void Leave(State at) {
  current->state = at;
  if (_setjmp(current->context) == 0) _longjmp(scheduler, 1);
}

// The function of every thread. Runs the current kernel, and later the kernels of further launches.
void Enter() {
  while (true) {
    (*running_kernel)();
    Leave(State::kReturned);
  }
}

void Start(Thread& thread) {
  ucontext_t context;
  getcontext(&context);
  context.uc_stack.ss_sp = thread.stack.get();
  context.uc_stack.ss_size = kStackBytes;
  makecontext(&context, Enter, 0);
  setcontext(&context);
}

void Resume(Thread& thread) {
  current = &thread;
  threadIdx = thread.index;
  thread.state = State::kReady;
  if (_setjmp(scheduler) != 0) return;
  if (!thread.started) {
    thread.started = true;
    Start(thread);
  }
  _longjmp(thread.context, 1);
}

// Runs the warp until each of its threads waits at a barrier of the block or has returned.
void RunWarp(Thread* begin, Thread* end) {
  const auto at_warp = [](const Thread& thread) { return thread.state == State::kAtWarp; };
  do {
    for (Thread* thread = begin; thread != end; ++thread) {
      if (thread->state == State::kReady || at_warp(*thread)) Resume(*thread);
    }
    TETHYS_CHECK(std::all_of(begin, end, at_warp) || std::none_of(begin, end, at_warp),
                 "a thread misses a shuffle of its warp");
  } while (at_warp(*begin));
}

void RunBlock(absl::Span<Thread> threads) {
  for (Thread& thread : threads) thread.state = State::kReady;
  const auto returned = [](const Thread& thread) { return thread.state == State::kReturned; };
  while (!std::all_of(threads.begin(), threads.end(), returned)) {
    for (size_t i = 0; i < threads.size(); i += kHostWarp) {
      RunWarp(&threads[i], threads.data() + std::min(i + kHostWarp, threads.size()));
    }
    for (Thread& thread : threads) {
      if (thread.state == State::kAtBlock) thread.state = State::kReady;
    }
  }
}

}  // namespace

void MeetBlock() { Leave(State::kAtBlock); }
void MeetWarp() { Leave(State::kAtWarp); }

void RunOnHost(dim3 blocks, dim3 threads, absl::FunctionRef<void()> kernel) {
  running_kernel = &kernel;
  gridDim = blocks;
  blockDim = threads;
  const size_t count = threads.x * threads.y;
  if (all_threads.size() < count) all_threads.resize(count);
  const absl::Span<Thread> used = absl::MakeSpan(all_threads).first(count);
  for (unsigned i = 0; i < count; ++i) used[i].index = {i % threads.x, i / threads.x, 0};
  for (blockIdx.y = 0; blockIdx.y < blocks.y; ++blockIdx.y) {
    for (blockIdx.x = 0; blockIdx.x < blocks.x; ++blockIdx.x) RunBlock(used);
  }
}

}  // namespace tethys::cuda
