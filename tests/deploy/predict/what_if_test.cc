#include "deploy/predict/what_if.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "absl/strings/str_join.h"
#include "deploy/predict/computers.h"
#include "deploy/predict/step_model.h"
#include "tests/deploy/predict/predict_fixture.h"

namespace tethys {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::vector<HostEntry> HostsOfKind(int count, const std::string& kind = "small") {
  std::vector<HostEntry> hosts(count);
  for (int i = 0; i < count; ++i) {
    hosts[i].host = absl::StrCat("host", i);
    hosts[i].kind = kind;
  }
  return hosts;
}

WhatIf Parsed(const std::string& value) {
  const absl::StatusOr<WhatIf> what_if = ParseWhatIf({value});
  TETHYS_CHECK(what_if.ok(), what_if.status().message());
  return *what_if;
}

std::string ParseError(const std::vector<std::string>& values) {
  const absl::StatusOr<WhatIf> what_if = ParseWhatIf(values);
  EXPECT_TRUE(absl::IsInvalidArgument(what_if.status())) << absl::StrJoin(values, " ");
  return std::string(what_if.status().message());
}

Supposition Supposed(const std::string& value, const std::vector<HostEntry>& hosts,
                     const proto::Calibration& calibration) {
  const absl::StatusOr<Supposition> supposed = Suppose(Parsed(value), hosts, calibration);
  TETHYS_CHECK(supposed.ok(), supposed.status().message());
  return *supposed;
}

// The prediction for the processes of `shape` on the supposed hosts: one process on each host, workers first.
proto::Prediction PredictionOn(const Shape784& shape, const Supposition& supposed) {
  JobMachines machines = MachinesOf(supposed.hosts);
  for (int i = 0; i < shape.workers + shape.servers; ++i) {
    (i < shape.workers ? machines.workers : machines.servers).push_back(i);
  }
  const absl::StatusOr<proto::Prediction> prediction =
      Predict(PlanFor(shape), machines, supposed.calibration);
  TETHYS_CHECK(prediction.ok(), prediction.status().message());
  return *prediction;
}

TEST(WhatIfTest, SettingsAreParsedWithTheirUnits) {
  const absl::StatusOr<WhatIf> what_if =
      ParseWhatIf({"hosts=32,kind=small,slots=2,cores=8", "speed=1.5,link=2.5Gbit/s,delay=50us,price=0.25"});
  ASSERT_TRUE(what_if.ok()) << what_if.status();
  EXPECT_EQ(*what_if->hosts, 32);
  EXPECT_EQ(what_if->kind, "small");
  EXPECT_EQ(*what_if->slots, 2);
  EXPECT_EQ(*what_if->cores, 8);
  EXPECT_EQ(*what_if->speed, 1.5);
  EXPECT_DOUBLE_EQ(*what_if->link, 2.5e9 / 8);
  EXPECT_DOUBLE_EQ(*what_if->delay, 5e-5);
  EXPECT_EQ(*what_if->price, 0.25);
  EXPECT_DOUBLE_EQ(*Parsed("link=940mbit").link, 940e6 / 8);
  EXPECT_DOUBLE_EQ(*Parsed("delay=1.5ms").delay, 1.5e-3);
}

TEST(WhatIfTest, ErrorNamesTheInvalidSettingAndTheValidForm) {
  EXPECT_THAT(ParseError({"host=3"}), AllOf(HasSubstr("'host'"), HasSubstr("the settings are hosts=N")));
  EXPECT_THAT(ParseError({""}), HasSubstr("NAME=VALUE"));
  EXPECT_THAT(ParseError({"hosts"}), HasSubstr("NAME=VALUE"));
  EXPECT_THAT(ParseError({"hosts=3,hosts=4"}), HasSubstr("hosts is given twice"));
  EXPECT_THAT(ParseError({"hosts=3", "hosts=4"}), HasSubstr("hosts is given twice"));
  for (const char* value : {"10", "-1gbit", "gbit", "10gbyte", "0mbit", "nangbit", "1e9gbit"}) {
    EXPECT_THAT(ParseError({absl::StrCat("link=", value)}), AllOf(HasSubstr(value), HasSubstr("10gbit")));
  }
  for (const char* value : {"50", "-1us", "us", "0s", "11s", "infs"}) {
    EXPECT_THAT(ParseError({absl::StrCat("delay=", value)}), AllOf(HasSubstr(value), HasSubstr("50us")));
  }
  for (const char* word : {"hosts=0", "hosts=-1", "hosts=4097", "cores=1.5", "slots=none", "speed=0",
                           "speed=-2", "speed=inf", "price=-1", "price=nan"}) {
    EXPECT_THAT(ParseError({word}), AllOf(HasSubstr("--what_if="), HasSubstr("write a"))) << word;
  }
  EXPECT_THAT(ParseError({"kind="}), HasSubstr("a kind of the host file"));
}

TEST(WhatIfTest, AdditionalHostsArePredictedLikeMeasuredHosts) {
  const Supposition supposed = Supposed("hosts=6", HostsOfKind(2), SmallHosts(100));
  ASSERT_EQ(supposed.hosts.size(), 6U);
  EXPECT_EQ(supposed.hosts[2].host, "what-if-3");
  EXPECT_EQ(supposed.text, "6 hosts (the additional hosts like host0)");
  for (const Shape784& shape : {Shape784{6, 0}, {4, 2}}) {
    const Supposition there{.hosts = HostsOfKind(6), .calibration = SmallHosts(100), .text = {}};
    EXPECT_NEAR(PredictionOn(shape, supposed).step().value(), PredictionOn(shape, there).step().value(),
                1e-12);
  }
  EXPECT_EQ(Supposed("hosts=1", HostsOfKind(2), SmallHosts()).hosts.size(), 1U);
}

// Three hosts, of which host1 has the median speed, and a host for servers that is the slowest.
TEST(WhatIfTest, AdditionalHostsAreLikeTheMedianOrTheNamedHost) {
  std::vector<HostEntry> hosts = HostsOfKind(4, "");
  hosts[3].roles.ps = true;
  hosts[3].kind = "store";
  proto::Calibration calibration = SmallHosts();
  const proto::ComputerCalibration measured = calibration.computer(0);
  calibration.clear_computer();
  for (const double speed : {1.0, 2.0, 4.0, 0.5}) {
    proto::Calibration one;
    *one.add_computer() = measured;
    ScaleSpeed(speed, one);
    proto::ComputerCalibration& computer = *calibration.add_computer() = one.computer(0);
    computer.set_kind("");
    computer.add_host(absl::StrCat("host", calibration.computer_size() - 1));
  }
  const auto step_of_last = [&](const std::string& value) {
    const Supposition supposed = Supposed(value, hosts, calibration);
    const HostEntry& last = supposed.hosts.back();
    return FindComputer(supposed.calibration, last.host, last.kind)->time(0).step();
  };
  EXPECT_DOUBLE_EQ(step_of_last("hosts=9"), measured.time(0).step() / 2);
  EXPECT_DOUBLE_EQ(step_of_last("hosts=9,kind=host2"), measured.time(0).step() / 4);
  EXPECT_DOUBLE_EQ(step_of_last("hosts=9,kind=store"), measured.time(0).step() / 0.5);
  const absl::Status unknown = Suppose(Parsed("hosts=9,kind=large"), hosts, calibration).status();
  EXPECT_THAT(std::string(unknown.message()),
              AllOf(HasSubstr("'large'"), HasSubstr("host0, host1, host2, store")));
  EXPECT_THAT(std::string(Suppose(Parsed("hosts=2,kind=store"), hosts, calibration).status().message()),
              HasSubstr("add hosts=N"));
}

TEST(WhatIfTest, SupposedLinksReplaceTheMeasuredLinks) {
  const Shape784 shape{.workers = 4, .servers = 1};
  const Supposition supposed = Supposed("link=10gbit,delay=20us", HostsOfKind(5), SmallHosts(100, 1e-3));
  const Supposition there{.hosts = HostsOfKind(5), .calibration = SmallHosts(10000, 2e-5), .text = {}};
  EXPECT_NEAR(PredictionOn(shape, supposed).step().value(), PredictionOn(shape, there).step().value(), 1e-12);
  EXPECT_EQ(supposed.text, "links of 10 Gbit/s, 20 µs from host to host");
}

TEST(WhatIfTest, ComputingIsFasterByTheFactor) {
  const double before =
      PredictionOn({.workers = 1}, Supposed("hosts=1", HostsOfKind(1), SmallHosts())).bound(0).seconds();
  const Supposition twice = Supposed("speed=2", HostsOfKind(1), SmallHosts());
  EXPECT_NEAR(PredictionOn({.workers = 1}, twice).bound(0).seconds(), before / 2, 1e-5);
}

TEST(WhatIfTest, MoreCoresAreSharedLikeTheMeasuredCores) {
  proto::Calibration calibration = SmallHosts();
  proto::ComputerCalibration& computer = *calibration.mutable_computer(0);
  computer.set_cores(2);
  for (const auto& [ranks, capacity] : {std::pair{1, 1.0}, {2, 1.8}, {4, 2.0}}) {
    computer.add_capacity_ranks(ranks);
    computer.add_capacity(capacity);
  }
  const proto::ComputerCalibration eight =
      Supposed("cores=8", HostsOfKind(1), calibration).calibration.computer(0);
  EXPECT_NEAR(CapacityOf(eight, 4), 4, 1e-12);
  EXPECT_NEAR(CapacityOf(eight, 8), 4 * 1.8, 1e-12);
  EXPECT_NEAR(CapacityOf(eight, 16), 4 * 2.0, 1e-12);
  const proto::ComputerCalibration one =
      Supposed("cores=1", HostsOfKind(1), calibration).calibration.computer(0);
  EXPECT_EQ(CapacityOf(one, 1), 1);
  EXPECT_NEAR(CapacityOf(one, 2), 1, 1e-12);

  computer.set_cores(0);
  EXPECT_THAT(std::string(Suppose(Parsed("cores=8"), HostsOfKind(1), calibration).status().message()),
              HasSubstr("does not say how many cores small has"));
  computer.set_cores(2);
  computer.set_device("cpu, oneDNN 2.6.3, AVX2, 1 thread");
  EXPECT_EQ(Supposed("cores=8", HostsOfKind(1), calibration).calibration.computer(0).cores(), 8);
  computer.set_device("A GPU");
  EXPECT_THAT(std::string(Suppose(Parsed("cores=8"), HostsOfKind(1), calibration).status().message()),
              HasSubstr("A GPU"));
}

TEST(WhatIfTest, OneMachineBecomesSeveralWithSupposedLinks) {
  proto::Calibration calibration = SmallHosts();
  calibration.clear_link();
  calibration.mutable_computer(0)->set_kind("");
  calibration.mutable_computer(0)->add_host(kThisMachine);
  const Supposition supposed = Supposed("hosts=5,link=1gbit,delay=50us,price=0.5", {}, calibration);
  ASSERT_EQ(supposed.hosts.size(), 5U);
  EXPECT_EQ(supposed.hosts[0].host, kThisMachine);
  EXPECT_EQ(supposed.hosts[4].price_per_hour, 0.5);
  const Supposition there{.hosts = HostsOfKind(5), .calibration = SmallHosts(1000), .text = {}};
  const Shape784 shape{.workers = 4, .servers = 1};
  EXPECT_NEAR(PredictionOn(shape, supposed).step().value(), PredictionOn(shape, there).step().value(), 1e-12);

  EXPECT_THAT(std::string(Suppose(Parsed("hosts=5,link=1gbit"), {}, calibration).status().message()),
              HasSubstr("delay=TIME"));
  EXPECT_THAT(std::string(Suppose(Parsed("link=1gbit"), {}, calibration).status().message()),
              HasSubstr("add hosts=N"));
  const Supposition larger = Supposed("cores=8,price=0.5", {}, calibration);
  EXPECT_TRUE(larger.hosts.empty());
  EXPECT_EQ(larger.slots_here, 8);
  EXPECT_EQ(larger.price_here, 0.5);
}

TEST(WhatIfTest, PredictionsAreMarkedAndHaveWiderIntervals) {
  const Supposition supposed = Supposed("link=4gbit", HostsOfKind(2), SmallHosts(1000));
  const proto::Prediction before = PredictionOn({.workers = 2}, supposed);
  proto::Prediction marked = before;
  MarkSupposed(supposed, marked);
  EXPECT_EQ(marked.validity(), proto::NO_MACHINE);
  EXPECT_THAT(marked.remark(), AllOf(HasSubstr("not verified by any run"), HasSubstr("links of 4 Gbit/s")));
  EXPECT_EQ(marked.step().value(), before.step().value());
  EXPECT_NEAR(std::log(marked.step().high() / before.step().high()), 2 * kWidthPerDoubling, 1e-9);
  EXPECT_NEAR(std::log(marked.total().low() / before.total().low()), -2 * kWidthPerDoubling, 1e-9);
  EXPECT_FALSE(marked.has_cost());
}

TEST(WhatIfTest, HostThatWasNotCalibratedIsNamed) {
  const absl::Status status = Suppose(Parsed("hosts=9"), HostsOfKind(2, "large"), SmallHosts()).status();
  EXPECT_TRUE(absl::IsNotFound(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("'host0'"));
}

}  // namespace
}  // namespace tethys
