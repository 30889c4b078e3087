#include "runtime/telemetry/resource_sampler.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <string>
#include <utility>

#include "runtime/base/file.h"
#include "tests/testing/fake_clock.h"

namespace tethys {
namespace {

// The two ends of a TCP connection over the loopback.
std::pair<FileDescriptor, FileDescriptor> Connect() {
  FileDescriptor listener(socket(AF_INET, SOCK_STREAM, 0)), client(socket(AF_INET, SOCK_STREAM, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  auto* const raw = reinterpret_cast<sockaddr*>(&address);
  EXPECT_EQ(bind(listener.get(), raw, size), 0);
  EXPECT_EQ(listen(listener.get(), 1), 0);
  EXPECT_EQ(getsockname(listener.get(), raw, &size), 0);
  EXPECT_EQ(connect(client.get(), raw, size), 0);
  return {std::move(client), FileDescriptor(accept(listener.get(), nullptr, nullptr))};
}

void Exchange(const std::pair<FileDescriptor, FileDescriptor>& ends, int bytes) {
  std::string data(bytes, 'x');
  ASSERT_EQ(send(ends.first.get(), data.data(), bytes, 0), bytes);
  ASSERT_EQ(recv(ends.second.get(), data.data(), bytes, MSG_WAITALL), bytes);
}

TEST(TcpCounterTest, CountsBytesThatTheProcessReceives) {
  TcpCounter counter;
  const int64_t before = counter.Count().in;
  const auto ends = Connect();
  Exchange(ends, 5000);
  EXPECT_EQ(counter.Count().in - before, 5000);
  Exchange(ends, 300);
  EXPECT_EQ(counter.Count().in - before, 5300);
}

TEST(TcpCounterTest, BytesOfAClosedConnectionStayCounted) {
  TcpCounter counter;
  const int64_t before = counter.Count().in;
  {
    const auto ends = Connect();
    Exchange(ends, 5000);
    counter.Count();
  }
  EXPECT_EQ(counter.Count().in - before, 5000);
  const auto ends = Connect();
  Exchange(ends, 700);
  EXPECT_EQ(counter.Count().in - before, 5700);
}

TEST(ResourceSamplerTest, SamplesOnceAnInterval) {
  FakeClock clock;
  ResourceSampler sampler(clock, {.interval = kSecond});
  ResourceSampler::Samples samples;
  clock.Advance(kSecond / 2);
  sampler.Collect(samples);
  EXPECT_EQ(samples.size(), 0);
  clock.Advance(kSecond / 2);
  sampler.Collect(samples);
  sampler.Collect(samples);
  ASSERT_EQ(samples.size(), 1);
  EXPECT_EQ(samples[0].taken_ns(), clock.Now());
  EXPECT_EQ(samples[0].interval_ns(), kSecond);
  EXPECT_GT(samples[0].resident_bytes(), 0);
  EXPECT_FALSE(samples[0].machine());
}

TEST(ResourceSamplerTest, DelayDoesNotShiftLaterSamples) {
  FakeClock clock;
  ResourceSampler sampler(clock, {.interval = kSecond});
  ResourceSampler::Samples samples;
  clock.Advance(3 * kSecond + kSecond / 2);
  sampler.Collect(samples);
  clock.Advance(kSecond / 2);
  sampler.Collect(samples);
  ASSERT_EQ(samples.size(), 2);
  EXPECT_EQ(samples[0].interval_ns(), 3 * kSecond + kSecond / 2);
  EXPECT_EQ(samples[1].interval_ns(), kSecond / 2);
}

TEST(ResourceSamplerTest, MachineIsSampledBesideTheProcessOnRequest) {
  FakeClock clock;
  ResourceSampler sampler(clock, {.machine = true});
  ResourceSampler::Samples samples;
  clock.Advance(kSecond);
  sampler.Collect(samples);
  ASSERT_EQ(samples.size(), 2);
  EXPECT_TRUE(samples[1].machine());
  EXPECT_GT(samples[1].cores(), 0);
  EXPECT_EQ(samples[1].boot_id().size(), 36u) << "a UUID";
  EXPECT_EQ(samples[0].boot_id(), "");
  EXPECT_GT(samples[1].resident_bytes(), samples[0].resident_bytes());
}

TEST(ResourceSamplerTest, CollectLastTakesAnEarlySampleUnlessTooLittleTimeHasPassed) {
  FakeClock clock;
  ResourceSampler sampler(clock, {.interval = kSecond});
  ResourceSampler::Samples samples;
  clock.Advance(10 * kMillisecond);
  sampler.CollectLast(samples);
  EXPECT_EQ(samples.size(), 0);
  clock.Advance(290 * kMillisecond);
  sampler.CollectLast(samples);
  ASSERT_EQ(samples.size(), 1);
  EXPECT_EQ(samples[0].interval_ns(), 300 * kMillisecond);
}

TEST(ResourceSamplerTest, IntervalOfZeroTakesNoSamples) {
  FakeClock clock;
  ResourceSampler sampler(clock, {.interval = 0, .machine = true});
  ResourceSampler::Samples samples;
  clock.Advance(100 * kSecond);
  sampler.Collect(samples);
  sampler.CollectLast(samples);
  EXPECT_EQ(samples.size(), 0);
}

}  // namespace
}  // namespace tethys
