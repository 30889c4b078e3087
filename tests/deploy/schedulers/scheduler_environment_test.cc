#include "deploy/schedulers/scheduler_environment.h"

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
  return TaskFromTfConfig({.environment = From({{"TF_CONFIG", text}})});
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
  EXPECT_THAT(std::string(TaskFromTfConfig({.environment = From({})}).status().message()),
              HasSubstr("TF_CONFIG: is not set"));
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

absl::StatusOr<ScheduledTask> SlurmTask(const Variables& variables, int servers) {
  return TaskFromSlurm({.environment = From(variables), .shape = {{}, 1, servers}});
}

TEST(SlurmTest, TheFirstProcessIsTheChief) {
  const auto task = SlurmTask(Slurm("0"), 2);
  ASSERT_TRUE(task.ok()) << task.status();
  EXPECT_EQ(task->role, proto::CHIEF);
  EXPECT_TRUE(task->starts_chief);
  EXPECT_EQ(task->workers, 3);
}

TEST(SlurmTest, NextProcessesAreServersThenWorkers) {
  const auto server = SlurmTask(Slurm("2"), 2);
  EXPECT_EQ(server->role, proto::PS);
  EXPECT_EQ(server->index, 1);
  const auto worker = SlurmTask(Slurm("5"), 2);
  EXPECT_EQ(worker->role, proto::WORKER);
  EXPECT_EQ(worker->index, 2);
  EXPECT_EQ(worker->host, "node02");
  EXPECT_EQ(worker->chief_host, "node01");
}

TEST(SlurmTest, StepNodelistOverridesJobNodelist) {
  Variables variables = Slurm("1");
  variables["SLURM_STEP_NODELIST"] = "node03";
  EXPECT_EQ(SlurmTask(variables, 0)->chief_host, "node03");
}

TEST(SlurmTest, JobsAndStepsOnOneNodeGetDifferentPorts) {
  std::set<int> offsets;
  Variables variables = Slurm("1");
  for (const char* job : {"7", "8", "4294967295"}) {
    for (const char* step : {"0", "1", "7"}) {
      variables["SLURM_JOB_ID"] = job;
      variables["SLURM_STEP_ID"] = step;
      const int offset = SlurmTask(variables, 2)->port_offset;
      EXPECT_GE(offset, 0);
      EXPECT_LT(offset, 1000);
      offsets.insert(offset);
    }
  }
  EXPECT_EQ(offsets.size(), 9u);
  EXPECT_EQ(SlurmTask(Slurm("1"), 2)->port_offset, 0);
}

TEST(SlurmTest, RefusesMissingOrWrongVariables) {
  for (const char* missing : {"SLURM_PROCID", "SLURM_NTASKS", "SLURM_JOB_NODELIST", "SLURMD_NODENAME"}) {
    Variables variables = Slurm("1");
    variables.erase(missing);
    EXPECT_THAT(std::string(SlurmTask(variables, 2).status().message()), HasSubstr(missing));
  }
  EXPECT_FALSE(SlurmTask(Slurm("6"), 2).ok());
  EXPECT_FALSE(SlurmTask(Slurm("-1"), 2).ok());
  EXPECT_FALSE(SlurmTask(Slurm("one"), 2).ok());
  EXPECT_THAT(std::string(SlurmTask(Slurm("1"), 5).status().message()), HasSubstr("need 7"));
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

// The task of the pod with this index and name, in a job with 2 servers and 3 workers.
absl::StatusOr<ScheduledTask> Pod(const std::string& index, const std::string& name) {
  return TaskFromKubernetes({.environment = From({{"JOB_COMPLETION_INDEX", index}}),
                             .shape = {{}, 3, 2},
                             .machine = [name] { return name; }});
}
std::string PodProblem(const std::string& index, const std::string& name) {
  return std::string(Pod(index, name).status().message());
}

TEST(KubernetesTest, RolesFollowFromTheIndexAndTheJob) {
  const auto chief = Pod("0", "train-0.net.default.svc");
  ASSERT_TRUE(chief.ok()) << chief.status();
  EXPECT_EQ(chief->role, proto::CHIEF);
  EXPECT_TRUE(chief->starts_chief);
  EXPECT_EQ(chief->workers, 3);
  EXPECT_EQ(chief->servers, 2);
  const auto server = Pod("2", "train-2.net.default.svc");
  EXPECT_EQ(server->role, proto::PS);
  EXPECT_EQ(server->index, 1);
  const auto worker = Pod("5", "train-5.net.default.svc");
  EXPECT_EQ(worker->role, proto::WORKER);
  EXPECT_EQ(worker->index, 2);
  EXPECT_FALSE(worker->starts_chief);
}

TEST(KubernetesTest, ChiefIsTheOwnNameWithIndexZero) {
  const auto worker = Pod("3", "my-3-job-3.net-3.default.svc.cluster.local");
  ASSERT_TRUE(worker.ok()) << worker.status();
  EXPECT_EQ(worker->host, "my-3-job-3.net-3.default.svc.cluster.local");
  EXPECT_EQ(worker->chief_host, "my-3-job-0.net-3.default.svc.cluster.local");
  EXPECT_THAT(worker->hosts, ElementsAre(worker->chief_host));
}

TEST(KubernetesTest, RefusesAnIndexOutsideTheJob) {
  EXPECT_THAT(
      PodProblem("6", "train-6.net"),
      HasSubstr("is 6, but the job has a chief, 2 servers and 3 workers, which are the indices 0 to 5: "
                "set completions and parallelism of the Job to 6"));
  for (const char* index : {"-1", "one", "1.5", "99999999999"}) {
    EXPECT_THAT(PodProblem(index, "train-1.net"), HasSubstr("JOB_COMPLETION_INDEX: is '")) << index;
  }
  EXPECT_THAT(PodProblem("", "train-1.net"), HasSubstr("is empty: Kubernetes sets it"));
  EXPECT_THAT(std::string(TaskFromKubernetes({.environment = From({})}).status().message()),
              HasSubstr("JOB_COMPLETION_INDEX: is not set: Kubernetes sets it"));
}

TEST(KubernetesTest, RefusesNamesByWhichPodsCannotFindOneAnother) {
  EXPECT_THAT(PodProblem("1", "train-1"), HasSubstr("set `subdomain` in the pod template"));
  for (const char* name : {"node7.example.org", "train-2.net", "-1.net", "1.net", ""}) {
    EXPECT_THAT(PodProblem("1", name), HasSubstr("not NAME-1")) << name;
  }
}

// The variables of one of five ranks on two machines.
Variables Torchrun(const std::string& rank) {
  return {{"RANK", rank}, {"WORLD_SIZE", "5"}, {"MASTER_ADDR", "a.example.org"}, {"MASTER_PORT", "29500"}};
}
absl::StatusOr<ScheduledTask> Rank(const Variables& variables, int servers = 2) {
  return TaskFromTorchrun(
      {.environment = From(variables), .shape = {{}, 1, servers}, .machine = [] { return "pod-0.net"; }});
}
std::string RankProblem(const Variables& variables, int servers = 2) {
  return std::string(Rank(variables, servers).status().message());
}

TEST(TorchrunTest, FirstRanksAreWorkersAndRankZeroRunsTheChief) {
  const auto first = Rank(Torchrun("0"));
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(first->role, proto::WORKER);
  EXPECT_EQ(first->index, 0);
  EXPECT_TRUE(first->starts_chief);
  EXPECT_EQ(first->workers, 3);
  EXPECT_EQ(first->servers, 2);
  EXPECT_EQ(first->host, "a.example.org");
  EXPECT_EQ(first->chief_port, 29500);
  const auto last = Rank(Torchrun("4"));
  EXPECT_EQ(last->role, proto::PS);
  EXPECT_EQ(last->index, 1);
  EXPECT_FALSE(last->starts_chief);
  EXPECT_EQ(last->host, "") << "the address on the route to the chief";
  EXPECT_EQ(last->chief_host, "a.example.org");
  EXPECT_TRUE(last->other_machines);
}

TEST(TorchrunTest, RanksOfOneMachineUseTheLoopbackAddress) {
  Variables variables = Torchrun("1");
  variables["LOCAL_WORLD_SIZE"] = "5";
  EXPECT_EQ(Rank(variables)->host, "127.0.0.1");
  EXPECT_EQ(Rank(variables)->chief_host, "127.0.0.1");
  EXPECT_FALSE(Rank(variables)->other_machines);
}

TEST(TorchrunTest, FirstPodIsReachedAtItsOwnNameIfItsMasterIsLocalhost) {
  Variables variables = Torchrun("0");
  variables["MASTER_ADDR"] = "localhost";
  EXPECT_EQ(Rank(variables)->host, "pod-0.net");
}

TEST(TorchrunTest, PortOfTorchrunsOwnStoreIsNotTaken) {
  Variables variables = Torchrun("1");
  variables["TORCHELASTIC_USE_AGENT_STORE"] = "True";
  EXPECT_EQ(Rank(variables)->chief_port, 0);
  EXPECT_EQ(Rank(variables)->port_offset, 500);
  variables["TORCHELASTIC_USE_AGENT_STORE"] = "False";
  EXPECT_EQ(Rank(variables)->chief_port, 29500);
}

TEST(TorchrunTest, RefusesMissingOrContradictoryVariables) {
  for (const char* missing : {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"}) {
    Variables variables = Torchrun("1");
    variables.erase(missing);
    EXPECT_THAT(RankProblem(variables),
                HasSubstr(absl::StrCat(missing, ": is not set: start this command by")));
    variables[missing] = "";
    EXPECT_THAT(RankProblem(variables), HasSubstr(absl::StrCat(missing, ": is empty")));
  }
  EXPECT_THAT(RankProblem(Torchrun("5")), HasSubstr("RANK: is 5, but WORLD_SIZE is 5"));
  EXPECT_THAT(RankProblem(Torchrun("-1")), HasSubstr("RANK: is '-1'"));
  for (const char* local : {"0", "6"}) {
    Variables variables = Torchrun("1");
    variables["LOCAL_WORLD_SIZE"] = local;
    EXPECT_THAT(RankProblem(variables), HasSubstr("LOCAL_WORLD_SIZE: is "));
  }
  Variables variables = Torchrun("1");
  variables["MASTER_PORT"] = "65536";
  EXPECT_THAT(RankProblem(variables), HasSubstr("MASTER_PORT: is 65536, expected a port"));
}

TEST(TorchrunTest, RefusesAJobWithMoreProcessesThanRanks) {
  EXPECT_THAT(RankProblem(Torchrun("1"), 5),
              HasSubstr("WORLD_SIZE: is 5, but 5 servers and 1 worker need 6: start more ranks"));
}

TEST(SchedulersTest, NamesAreThoseOfTheTable) {
  EXPECT_EQ(SchedulerNames(), "slurm|kubernetes|torchrun|tf_config");
}

}  // namespace
}  // namespace tethys
