#include "deploy/hosts/scheduler_environment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

namespace tethys {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Variables = std::map<std::string, std::string>;

Environment From(const Variables& variables) {
  return [variables](const std::string& name) -> absl::optional<std::string> {
    const auto found = variables.find(name);
    if (found == variables.end()) return absl::nullopt;
    return found->second;
  };
}

absl::StatusOr<ScheduledTask> TfConfig(const std::string& text) {
  return TaskFromTfConfig(From({{"TF_CONFIG", text}}));
}
std::string TfConfigProblem(const std::string& text) {
  return std::string(TfConfig(text).status().message());
}

const std::string kCluster =
    R"({"cluster": {"chief": ["m:4000"], "worker": ["a:1", "b:2"], "ps": ["c:3"]}, "task": )";

TEST(TfConfigTest, WorkerReadsItsIndexTheTaskCountsAndTheChief) {
  const auto task = TfConfig(kCluster + R"({"type": "worker", "index": 1}})");
  ASSERT_TRUE(task.ok()) << task.status();
  EXPECT_EQ(task->role, proto::WORKER);
  EXPECT_EQ(task->index, 1);
  EXPECT_EQ(task->workers, 2);
  EXPECT_EQ(task->servers, 1);
  EXPECT_EQ(task->host, "b");
  EXPECT_EQ(task->chief_host, "m");
  EXPECT_EQ(task->chief_port, 4000);
  EXPECT_FALSE(task->starts_chief);
}

TEST(TfConfigTest, ChiefAndServerGetTheirRoles) {
  const auto chief = TfConfig(kCluster + R"({"type": "chief", "index": 0}})");
  ASSERT_TRUE(chief.ok()) << chief.status();
  EXPECT_EQ(chief->role, proto::CHIEF);
  EXPECT_TRUE(chief->starts_chief);
  const auto server = TfConfig(kCluster + R"({"type": "ps"}})");
  EXPECT_EQ(server->role, proto::PS);
  EXPECT_EQ(server->index, 0);
}

TEST(TfConfigTest, FirstWorkerStartsTheChiefIfTheClusterHasNone) {
  const std::string cluster = R"({"cluster": {"worker": ["a:1", "b:2"]}, "task": )";
  const auto first = TfConfig(cluster + R"({"type": "worker", "index": 0}})");
  const auto second = TfConfig(cluster + R"({"type": "worker", "index": 1}})");
  EXPECT_TRUE(first->starts_chief);
  EXPECT_FALSE(second->starts_chief);
  EXPECT_EQ(second->chief_host, "a");
  EXPECT_EQ(second->chief_port, 1);
}

TEST(TfConfigTest, AcceptsMasterOfTensorFlow1AndIgnoresOtherFields) {
  const auto task = TfConfig(R"({"cluster": {"master": ["m:4"], "worker": ["a:1"], "evaluator": ["e:1"]},
      "task": {"type": "master", "index": "0"}, "environment": "cloud", "rpc_layer": "grpc"})");
  ASSERT_TRUE(task.ok()) << task.status();
  EXPECT_EQ(task->role, proto::CHIEF);
}

TEST(TfConfigTest, RefusesMalformedConfiguration) {
  EXPECT_THAT(std::string(TaskFromTfConfig(From({})).status().message()), HasSubstr("TF_CONFIG: is not set"));
  for (const char* text : {"", "{", "[]", "worker", R"({"cluster": 3})", R"({"cluster": {"worker": "a:1"}})",
                           R"({"cluster": {"worker": {"0": "a:1"}}})"}) {
    EXPECT_FALSE(TfConfig(text).ok()) << text;
  }
  EXPECT_THAT(TfConfigProblem("{]"), HasSubstr("TF_CONFIG: is not the JSON expected"));
}

TEST(TfConfigTest, RefusesTasksOutsideTheCluster) {
  EXPECT_THAT(TfConfigProblem(kCluster + R"({"type": "evaluator", "index": 0}})"),
              HasSubstr("task.type is 'evaluator'"));
  EXPECT_THAT(TfConfigProblem(kCluster + R"({"type": "worker", "index": 2}})"),
              HasSubstr("cluster.worker[2] is named as this task, but the cluster has only 2"));
  EXPECT_THAT(TfConfigProblem(kCluster + R"({"type": "worker", "index": -1}})"), HasSubstr("worker[-1]"));
  EXPECT_THAT(TfConfigProblem(R"({"cluster": {"ps": ["a:1"]}, "task": {"type": "ps"}})"),
              HasSubstr("cluster.worker is empty"));
  EXPECT_THAT(TfConfigProblem(R"({"cluster": {"worker": ["a"]}, "task": {"type": "worker"}})"),
              HasSubstr("cluster.worker[0]: "));
}

// The variables of one of six processes that srun started on three nodes; `process` is its number, from 0.
Variables Slurm(const std::string& process) {
  return {{"SLURM_PROCID", process},
          {"SLURM_NTASKS", "6"},
          {"SLURM_JOB_NODELIST", "node[01-03]"},
          {"SLURMD_NODENAME", "node02"}};
}

TEST(SlurmTest, TheFirstProcessIsTheChief) {
  const auto task = TaskFromSlurm(From(Slurm("0")), 2);
  ASSERT_TRUE(task.ok()) << task.status();
  EXPECT_EQ(task->role, proto::CHIEF);
  EXPECT_TRUE(task->starts_chief);
  EXPECT_EQ(task->workers, 3);
}

TEST(SlurmTest, NextProcessesAreServersThenWorkers) {
  const auto server = TaskFromSlurm(From(Slurm("2")), 2);
  EXPECT_EQ(server->role, proto::PS);
  EXPECT_EQ(server->index, 1);
  const auto worker = TaskFromSlurm(From(Slurm("5")), 2);
  EXPECT_EQ(worker->role, proto::WORKER);
  EXPECT_EQ(worker->index, 2);
  EXPECT_EQ(worker->host, "node02");
  EXPECT_EQ(worker->chief_host, "node01");
}

TEST(SlurmTest, StepNodelistOverridesJobNodelist) {
  Variables variables = Slurm("1");
  variables["SLURM_STEP_NODELIST"] = "node03";
  EXPECT_EQ(TaskFromSlurm(From(variables), 0)->chief_host, "node03");
}

TEST(SlurmTest, JobsAndStepsOnOneNodeGetDifferentPorts) {
  std::set<int> offsets;
  Variables variables = Slurm("1");
  for (const char* job : {"7", "8", "4294967295"}) {
    for (const char* step : {"0", "1", "7"}) {
      variables["SLURM_JOB_ID"] = job;
      variables["SLURM_STEP_ID"] = step;
      const int offset = TaskFromSlurm(From(variables), 2)->port_offset;
      EXPECT_GE(offset, 0);
      EXPECT_LT(offset, 1000);
      offsets.insert(offset);
    }
  }
  EXPECT_EQ(offsets.size(), 9u);
  EXPECT_EQ(TaskFromSlurm(From(Slurm("1")), 2)->port_offset, 0);
}

TEST(SlurmTest, RefusesMissingOrWrongVariables) {
  for (const char* missing : {"SLURM_PROCID", "SLURM_NTASKS", "SLURM_JOB_NODELIST", "SLURMD_NODENAME"}) {
    Variables variables = Slurm("1");
    variables.erase(missing);
    EXPECT_THAT(std::string(TaskFromSlurm(From(variables), 2).status().message()), HasSubstr(missing));
  }
  EXPECT_FALSE(TaskFromSlurm(From(Slurm("6")), 2).ok());
  EXPECT_FALSE(TaskFromSlurm(From(Slurm("-1")), 2).ok());
  EXPECT_FALSE(TaskFromSlurm(From(Slurm("one")), 2).ok());
  EXPECT_THAT(std::string(TaskFromSlurm(From(Slurm("1")), 5).status().message()), HasSubstr("need 7"));
}

absl::StatusOr<bool> OwnGpus(const Variables& variables) { return SlurmGivesOwnGpus(From(variables)); }

TEST(SlurmGpusTest, TaskThatSeesOnlyItsGpusPerTask_OwnsThem) {
  for (const char* visible : {"0", "3", "GPU-3a23c669-1f69-c64e-cf85-44e9b07e7a2a"}) {
    EXPECT_TRUE(*OwnGpus({{"SLURM_GPUS_PER_TASK", "1"}, {"CUDA_VISIBLE_DEVICES", visible}})) << visible;
  }
  // SLURM_STEP_GPUS lists the GPUs of the task or the GPUs of the whole step.
  for (const char* step : {"2", "0,1,2,3"}) {
    EXPECT_TRUE(
        *OwnGpus({{"SLURM_GPUS_PER_TASK", "1"}, {"CUDA_VISIBLE_DEVICES", "0"}, {"SLURM_STEP_GPUS", step}}));
  }
  EXPECT_TRUE(*OwnGpus({{"SLURM_GPUS_PER_TASK", "a100:1,h100:1"}, {"CUDA_VISIBLE_DEVICES", "2,5"}}));
}

TEST(SlurmGpusTest, TasksThatSeeAllGpusOfTheStep_ShareThem) {
  EXPECT_FALSE(*OwnGpus({}));
  EXPECT_FALSE(*OwnGpus({{"CUDA_VISIBLE_DEVICES", "0,1,2,3"}, {"SLURM_STEP_GPUS", "0,1,2,3"}}));
  const Variables unbound = {{"SLURM_GPUS_PER_TASK", "1"}, {"CUDA_VISIBLE_DEVICES", "0,1,2,3"}};
  EXPECT_FALSE(*OwnGpus(unbound));
  for (const char* variable : {"SLURM_STEP_GPUS", "SLURM_JOB_GPUS"}) {
    Variables variables = unbound;
    variables[variable] = "4,5,6,7";
    EXPECT_FALSE(*OwnGpus(variables)) << variable;
  }
  EXPECT_FALSE(*OwnGpus({{"SLURM_GPUS_PER_TASK", "1"}}));  // The task sees all GPUs of the node.
}

TEST(SlurmGpusTest, StepGpusOverrideJobGpus) {
  EXPECT_FALSE(*OwnGpus({{"SLURM_GPUS_PER_TASK", "1"},
                         {"CUDA_VISIBLE_DEVICES", "0,1"},
                         {"SLURM_STEP_GPUS", "0,1"},
                         {"SLURM_JOB_GPUS", "0,1,2,3"}}));
}

TEST(SlurmGpusTest, RefusesContradictoryVariables) {
  for (const char* visible : {"0", "0,1,2", "", "NoDevFiles"}) {
    const absl::Status problem =
        OwnGpus(
            {{"SLURM_GPUS_PER_TASK", "2"}, {"CUDA_VISIBLE_DEVICES", visible}, {"SLURM_STEP_GPUS", "0,1,2,3"}})
            .status();
    EXPECT_EQ(problem.code(), absl::StatusCode::kInvalidArgument) << visible;
    for (const char* part :
         {"CUDA_VISIBLE_DEVICES: is '", visible, "SLURM_GPUS_PER_TASK is '2'", "'0,1,2,3'"}) {
      EXPECT_THAT(std::string(problem.message()), HasSubstr(part));
    }
  }
}

TEST(SlurmGpusTest, RefusesMalformedNumberOfGpus) {
  for (const char* text : {"", "0", "-1", "one", "a100", "a100:", "1,", "1025", "99999999999"}) {
    const absl::Status problem =
        OwnGpus({{"SLURM_GPUS_PER_TASK", text}, {"CUDA_VISIBLE_DEVICES", "0"}}).status();
    EXPECT_THAT(std::string(problem.message()), HasSubstr("SLURM_GPUS_PER_TASK: is '")) << text;
  }
}

TEST(NodelistTest, ExpandedNumbersKeepTheirWidth) {
  EXPECT_THAT(*ParseNodelist("node[01-03,7]"), ElementsAre("node01", "node02", "node03", "node7"));
  EXPECT_THAT(*ParseNodelist("n[9-11]"), ElementsAre("n9", "n10", "n11"));
}

TEST(NodelistTest, TakesPlainNamesSeveralEntriesAndSeveralBrackets) {
  EXPECT_THAT(*ParseNodelist("login"), ElementsAre("login"));
  EXPECT_THAT(*ParseNodelist("a1,b[1-2]x,c.example.org"), ElementsAre("a1", "b1x", "b2x", "c.example.org"));
  EXPECT_THAT(*ParseNodelist("r[0-1]n[1-2]"), ElementsAre("r0n1", "r0n2", "r1n1", "r1n2"));
}

TEST(NodelistTest, RefusesMalformedLists) {
  for (const char* text : {"",
                           ",",
                           "a,,b",
                           "a,",
                           "n[",
                           "n]",
                           "n[]",
                           "n[1",
                           "n1]",
                           "n[[1]]",
                           "n[1-]",
                           "n[-1]",
                           "n[a-b]",
                           "n[3-1]",
                           "n[1,]",
                           "n[1-2-3]",
                           "n[0-99999999]",
                           "n[0-999]m[0-999]",
                           "n[00000000001]",
                           "n[1-99999999999]"}) {
    EXPECT_EQ(ParseNodelist(text).status().code(), absl::StatusCode::kInvalidArgument) << text;
  }
}

TEST(NodelistTest, RefusesTooLongNames) {
  EXPECT_TRUE(ParseNodelist(std::string(255, 'x')).ok());
  EXPECT_THAT(std::string(ParseNodelist("n[1-9]" + std::string(255, 'x')).status().message()),
              HasSubstr("longer than 255 characters"));
}

}  // namespace
}  // namespace tethys
