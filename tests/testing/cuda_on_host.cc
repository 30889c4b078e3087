#include "tests/testing/cuda_on_host.h"

#include <ucontext.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "runtime/base/status.h"

namespace tethys::cuda {
namespace {

constexpr size_t kStackBytes = 64 << 10;

enum class State { kReady, kAtWarp, kAtBlock, kReturned };

struct Thread {
  ucontext_t context;
  uint3 index;
  State state = State::kReady;
  std::unique_ptr<char[]> stack{new char[kStackBytes]};
};

// The state of the running block. These variables are global because no kernel takes them as arguments.
std::vector<Thread> threads_of_block;
Thread* current = nullptr;
ucontext_t scheduler;
absl::FunctionRef<void()>* running_kernel = nullptr;

void Enter() {
  (*running_kernel)();
  current->state = State::kReturned;  // When Enter returns, uc_link continues in Resume.
}

void Resume(Thread& thread) {
  current = &thread;
  threadIdx = thread.index;
  thread.state = State::kReady;
  swapcontext(&scheduler, &thread.context);
}

void Meet(State at) {
  current->state = at;
  swapcontext(&current->context, &scheduler);
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

void RunBlock() {
  std::vector<Thread>& threads = threads_of_block;
  for (Thread& thread : threads) {
    getcontext(&thread.context);
    thread.context.uc_stack.ss_sp = thread.stack.get();
    thread.context.uc_stack.ss_size = kStackBytes;
    thread.context.uc_link = &scheduler;
    thread.state = State::kReady;
    makecontext(&thread.context, Enter, 0);
  }
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

void MeetBlock() { Meet(State::kAtBlock); }
void MeetWarp() { Meet(State::kAtWarp); }

void RunOnHost(dim3 blocks, dim3 threads, absl::FunctionRef<void()> kernel) {
  running_kernel = &kernel;
  gridDim = blocks;
  blockDim = threads;
  threads_of_block = std::vector<Thread>(threads.x * threads.y);
  for (unsigned i = 0; i < threads_of_block.size(); ++i) {
    threads_of_block[i].index = {i % threads.x, i / threads.x, 0};
  }
  for (blockIdx.y = 0; blockIdx.y < blocks.y; ++blockIdx.y) {
    for (blockIdx.x = 0; blockIdx.x < blocks.x; ++blockIdx.x) RunBlock();
  }
}

}  // namespace tethys::cuda
