// A simulated stream of a server's shards to another server: models CopySender (ps/copy_sender.h) as events.
// If the connection breaks, or the receiver is not ready, the sender connects again and sends the version
// again.
#ifndef TETHYS_TESTS_SIMULATION_COPY_STREAM_H_
#define TETHYS_TESTS_SIMULATION_COPY_STREAM_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runtime/tensor/frame.h"
#include "runtime/tensor/variable.h"
#include "tests/simulation/process.h"

namespace tethys::simulation {

class SimulatedServer;

class CopyStream : public std::enable_shared_from_this<CopyStream> {
 public:
  struct Options {
    int receiver = 0;
    int primary = 0;
    uint32_t generation = 0;
    int64_t size = 0;  // Elements of each arena.
    // The arenas. They are read when a frame arrives, because the product sends from the store's memory.
    std::vector<const float*> arenas;
    std::shared_ptr<const void> memory;
    std::function<void(int64_t version)> on_copied;
  };
  CopyStream(SimulatedServer& sender, Options options) : sender_(sender), options_(std::move(options)) {}

  // `book`: as in CopySender.
  void Offer(int64_t version, std::string book);
  void SendWhole(int64_t version, std::string book);
  void Add(int64_t version, Range range);
  void Stop();

 private:
  void Begin(int64_t version);
  void Connect();
  void Ask();
  void SendBook();
  void Send(size_t range, size_t arena);
  Frame NextFrame();
  void SendAll();
  void OnAnswer(bool answers_question, const Frame& answer);

  SimulatedServer& sender_;
  const Options options_;
  std::shared_ptr<Connection> connection_;
  bool stopped_ = false;
  bool copied_ = true;
  bool asks_ = false;  // The receiver is asked whether it has the version, and has not answered.
  int64_t version_ = -1;
  std::string book_;
  uint64_t frames_ = 0;
  std::vector<Range> ranges_;
};

}  // namespace tethys::simulation

#endif  // TETHYS_TESTS_SIMULATION_COPY_STREAM_H_
