#include "runtime/shape/shape_traits.h"

#include <algorithm>
#include <set>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/shape/job_shape.h"

namespace tethys {
namespace {

using ::testing::ElementsAre;
using ::testing::Not;
using ::testing::StrEq;

TEST(ShapeTraitsTest, TraitsTableHasARowForEveryStrategyOfTheJobFile) {
  const auto in_table = [](int kind, int consistency) {
    return std::count_if(KnownTraits().begin(), KnownTraits().end(), [&](const ShapeTraits& traits) {
      return traits.kind == kind && traits.consistency == consistency;
    });
  };
  const auto& kinds = *proto::Strategy::descriptor()->FindOneofByName("kind");
  const auto& consistencies = *proto::ParameterServer::descriptor()->FindOneofByName("consistency");
  for (int i = 0; i < kinds.field_count(); ++i) {
    if (kinds.field(i)->number() == proto::Strategy::kParameterServer) continue;
    EXPECT_EQ(in_table(kinds.field(i)->number(), 0), 1) << kinds.field(i)->name();
  }
  for (int i = 0; i < consistencies.field_count(); ++i) {
    EXPECT_EQ(in_table(proto::Strategy::kParameterServer, consistencies.field(i)->number()), 1)
        << consistencies.field(i)->name();
  }
  EXPECT_EQ(KnownTraits().size(), kinds.field_count() - 1 + consistencies.field_count());
}

TEST(ShapeTraitsTest, StrategyNamesDifferAndNoneIsAPrefixOfAnother) {
  for (const ShapeTraits& traits : KnownTraits()) {
    EXPECT_THAT(traits.name, Not(StrEq("")));
    for (const ShapeTraits& other : KnownTraits()) {
      if (traits.family == other.family) continue;
      EXPECT_FALSE(absl::string_view(traits.name).substr(0, std::string(other.name).size()) == other.name)
          << traits.name << " begins with " << other.name;
    }
  }
}

TEST(ShapeTraitsTest, TraitsOfEachStrategyAreConsistent) {
  for (const ShapeTraits& traits : KnownTraits()) {
    SCOPED_TRACE(traits.name);
    EXPECT_EQ(traits.servers(), traits.kind == proto::Strategy::kParameterServer);
    EXPECT_TRUE(traits.exchanges || !traits.servers());
    EXPECT_EQ(traits.lock_step, traits.update == UpdateUnit::kStep);
    EXPECT_EQ(traits.leases(), traits.update != UpdateUnit::kStep);
    EXPECT_EQ(traits.scale != nullptr, traits.update != UpdateUnit::kStep);
    EXPECT_EQ(traits.bound != nullptr, traits.waits_for == WaitsFor::kSlow);
  }
}

TEST(ShapeTraitsTest, OnlyAsynchronousAndStaleSynchronousJobsLeaseBatches) {
  std::set<std::string> survive;
  for (const ShapeTraits& traits : KnownTraits()) {
    if (traits.leases()) survive.insert(traits.name);
  }
  EXPECT_THAT(survive, ElementsAre("ps_async", "ps_stale"));
}

TEST(ShapeTraitsTest, UnknownStrategyHasNeitherServersNorLockStep) {
  const auto strategy = ParseStrategy("ps_dynamic_3_15");
  const ShapeTraits& unknown = TraitsOf(strategy);
  EXPECT_EQ(unknown.family, StrategyFamily::kUnknown);
  EXPECT_FALSE(unknown.lock_step);
  EXPECT_FALSE(unknown.servers());
}

TEST(ShapeTraitsTest, StrategyFamilyDecidesWhetherBatchesComeInStepInRoundsOrOnDemand) {
  for (const StrategyFamily family :
       {StrategyFamily::kLocal, StrategyFamily::kMirrored, StrategyFamily::kBulkSynchronous}) {
    EXPECT_EQ(TraitsOf(family).batches, Batches::kInStep) << TraitsOf(family).name;
    EXPECT_FALSE(TraitsOf(family).leases());
  }
  EXPECT_EQ(TraitsOf(StrategyFamily::kStaleSynchronous).batches, Batches::kInRounds);
  EXPECT_EQ(TraitsOf(StrategyFamily::kAsynchronous).batches, Batches::kOnDemand);
}

}  // namespace
}  // namespace tethys
