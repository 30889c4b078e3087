// The order in which the epochs of a job use their samples, according to the job's plan. Pure; any thread.
#ifndef TETHYS_RUNTIME_CLUSTER_SAMPLE_ORDER_H_
#define TETHYS_RUNTIME_CLUSTER_SAMPLE_ORDER_H_

#include <cstdint>
#include <string>

#include "proto/plan.pb.h"
#include "runtime/data/epoch_order.h"

namespace tethys {

// The job's sharding, with AUTO replaced by the plan's choice: FILE if the plan gives the number of samples
// of each file, otherwise DATA.
proto::Data::Sharding ShardingOf(const proto::JobPlan& plan);

// The number of ranks over which samples are sharded: workers or, in a local job, virtual replicas.
int64_t RanksOf(const proto::JobPlan& plan);

// The largest number of positions that an epoch may have (EpochLength).
inline constexpr int64_t kMaxEpochLength = int64_t{1} << 40;
// The number of positions in an epoch's order, with one sample at each position. It is the number of training
// samples; with sharding OFF, it is that number times the number of ranks. A position in the whole job is
// epoch x EpochLength + position in the epoch.
int64_t EpochLength(const proto::JobPlan& plan);
// The number of positions that an epoch uses: all or, with drop_remainder, only the positions in full
// batches.
int64_t SamplesPerEpoch(const proto::JobPlan& plan);

// The rank to which each position of an epoch belongs. In a job without sharding the positions also have
// ranks, but nothing depends on these ranks. Requires a global batch.
RankSplit RankSplitOf(const proto::JobPlan& plan);

// The rules of the sample order. With FILE, requires that the plan's `file_samples` add up to its number of
// training samples.
OrderRules OrderRulesOf(const proto::JobPlan& plan);

// Describes the order in a text such as "FILE over 3 workers in steps of 128, 12 files 0f3a5b7788; blocks of
// 1024 samples in windows of 8". The text contains everything that the order depends on, except seed, epoch
// and number of samples. Equal texts mean equal orders. The text is empty for a full shuffle of all samples,
// the only order in old versions of Tethys.
std::string OrderText(const proto::JobPlan& plan);

}  // namespace tethys

#endif  // TETHYS_RUNTIME_CLUSTER_SAMPLE_ORDER_H_
