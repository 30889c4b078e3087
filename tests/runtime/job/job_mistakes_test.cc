// Mistakes in a job file are refused, each with its place and a remedy.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ostream>
#include <string>
#include <vector>

#include "tests/runtime/job/job_text.h"

namespace tethys {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

struct Mistake {
  const char* old_text;
  const char* new_text;
  const char* where;  // How the message starts.
  std::vector<std::string> fragments;
};

std::ostream& operator<<(std::ostream& out, const Mistake& mistake) { return out << mistake.new_text; }

class MistakeTest : public ::testing::TestWithParam<Mistake> {};

TEST_P(MistakeTest, IsRefusedWithPlaceAndRemedy) {
  const Mistake& mistake = GetParam();
  const std::string error = ErrorOf(Edited(mistake.old_text, mistake.new_text));
  EXPECT_THAT(error, StartsWith(mistake.where));
  for (const std::string& fragment : mistake.fragments) EXPECT_THAT(error, HasSubstr(fragment));
}

INSTANTIATE_TEST_SUITE_P(
    Syntax, MistakeTest,
    ::testing::Values(
        Mistake{"epochs: 5",
                "epoch: 5",
                "my.textproto:15:6: ",
                {"Job has no field 'epoch'", "did you mean 'epochs'?", "; it has: name, model,"}},
        Mistake{"epochs: 5", "zzzzzzzz: 5", "my.textproto:15:9: ", {"no field 'zzzzzzzz'; it has: name"}},
        Mistake{"momentum: 0.9",
                "momentun: 0.9",
                "my.textproto:11:17: ",
                {"Sgd has no field 'momentun'", "did you mean 'momentum'?"}},
        Mistake{"parameter_server {",
                "parameter_servers {",
                "my.textproto:17:",
                {"Strategy has no field 'parameter_servers'", "did you mean 'parameter_server'?",
                 "it has: local, mirrored, parameter_server"}},
        Mistake{"parameter_server {",
                "gossip {",
                "my.textproto:17:",
                {"Strategy has no field 'gossip'; it has: local"}},
        Mistake{"flatten {}",
                "flatten { units: 3 }",
                "my.textproto:2:",
                {"Flatten has no field 'units': it has no"}},
        Mistake{"epochs: 5",
                "epochs: 5 device { precision: BF16 }",
                "my.textproto:15:",
                {"device.precision is BF16, but device.kind is CPU", "or write kind: CUDA"}},
        Mistake{"epochs: 5",
                "epochs: 5 device { kind: CUDA precision: FP16 }",
                "my.textproto:15:",
                {"precision FP16 is refused", "Write BF16"}},
        Mistake{"epochs: 5", "epochs: \"five\"", "my.textproto:15:9: ", {"Expected integer"}},
        Mistake{"epochs: 5", "epochs: 5.5", "my.textproto:15:9: ", {"Expected integer"}},
        Mistake{"workers: 3", "workers: 99999999999", "my.textproto:16:10: ", {"out of range"}},
        Mistake{"activation: RELU",
                "activation: relu",
                "my.textproto:3:",
                {"'relu' is not a value of activation", "did you mean 'RELU'?",
                 "its values are: ACTIVATION_NONE, RELU"}},
        Mistake{"epochs: 5",
                "epochs: 5 global_batch_size: 384",
                "my.textproto:15:",
                {"global_batch_size", "batch_size_per_worker", "oneof", "Keep one of them"}},
        Mistake{"bulk_synchronous {}",
                "bulk_synchronous {} asynchronous {}",
                "my.textproto:17:",
                {"asynchronous", "Keep one of them"}},
        Mistake{
            "epochs: 5", "epochs: 5 epochs: 6", "my.textproto:15:", {"multiple times", "Keep one of them"}},
        Mistake{"epochs: 5", "epochs: 0 epochs: 6", "my.textproto:15:", {"multiple times"}},
        Mistake{"optimizer {", "optimizer {{", "my.textproto:10:", {"Expected"}},
        Mistake{"bulk_synchronous {} } }",
                "bulk_synchronous {} }",
                "my.textproto:18:1: ",
                {"Expected", "is a } missing"}}));

INSTANTIATE_TEST_SUITE_P(
    Ranges, MistakeTest,
    ::testing::Values(
        Mistake{
            "workers: 3", "workers: 0", "my.textproto:16:1: ", {"workers is 0: must be at least 1", "4096"}},
        Mistake{"workers: 3", "workers: -2", "my.textproto:16:1: ", {"workers is -2: must be at least 1"}},
        Mistake{"workers: 3", "workers: 5000", "my.textproto:16:1: ", {"workers is 5000", "at most 4096"}},
        Mistake{"servers: 2", "servers: 0", "my.textproto:17:31: ", {"servers is 0", "at most 1024"}},
        Mistake{"servers: 2", "servers: 1025", "my.textproto:17:31: ", {"servers is 1025"}},
        Mistake{
            "batch_size_per_worker: 128", "batch_size_per_worker: 0", "my.textproto:14:1: ", {"at least 1"}},
        Mistake{"batch_size_per_worker: 128",
                "batch_size_per_worker: 1048577",
                "my.textproto:14:1: ",
                {"1048576"}},
        Mistake{"batch_size_per_worker: 128",
                "global_batch_size: 2",
                "my.textproto:14:1: ",
                {"global_batch_size is 2, but workers is 3", "every worker needs a sample"}},
        Mistake{"epochs: 5", "epochs: -1", "my.textproto:15:1: ", {"epochs is -1: must be at least 0"}},
        Mistake{"epochs: 5", "epochs: 1048577", "my.textproto:15:1: ", {"epochs is 1048577"}},
        Mistake{
            "epochs: 5", "max_steps: 1099511627777", "my.textproto:15:1: ", {"max_steps is 1099511627777"}},
        Mistake{"units: 128", "units: 0", "my.textproto:3:19: ", {"model.layer[1].dense.units is 0"}},
        Mistake{"units: 128", "units: 16777217", "my.textproto:3:19: ", {"is 16777217: must be", "16777216"}},
        Mistake{"units: 128", "", "my.textproto:3:11: ", {"model.layer[1].dense.units is missing"}},
        Mistake{"classes: 10", "classes: 1", "my.textproto:8:3: ", {"data.classes is 1: must be at least 2"}},
        Mistake{"classes: 10", "", "my.textproto:6:1: ", {"data.classes is missing"}},
        Mistake{"classes: 10", "classes: 10 prefetch_batches: 65", "my.textproto:8:15: ", {"at most 64"}},
        Mistake{"classes: 10", "classes: 10 validation_samples: -1", "my.textproto:8:15: ", {"at least 0"}},
        Mistake{"classes: 10", "classes: 10 deviation: 0", "my.textproto:8:15: ", {"must be above 0"}},
        Mistake{"classes: 10", "classes: 10 mean: nan", "my.textproto:8:15: ", {"data.mean is nan"}},
        Mistake{"learning_rate: 0.05", "learning_rate: 0", "my.textproto:12:3: ", {"must be above 0"}},
        Mistake{"learning_rate: 0.05",
                "learning_rate: -0.1",
                "my.textproto:12:3: ",
                {"learning_rate is -0.1: must"}},
        Mistake{"learning_rate: 0.05",
                "learning_rate: inf",
                "my.textproto:12:3: ",
                {"learning_rate is inf: must"}},
        Mistake{"learning_rate: 0.05",
                "learning_rate: nan",
                "my.textproto:12:3: ",
                {"learning_rate is nan: must"}},
        Mistake{"learning_rate: 0.05", "", "my.textproto:10:1: ", {"optimizer.learning_rate is missing"}},
        Mistake{"momentum: 0.9", "momentum: 1", "my.textproto:11:9: ", {"momentum is 1", "below 1"}},
        Mistake{"momentum: 0.9", "momentum: -0.5", "my.textproto:11:9: ", {"at least 0"}},
        Mistake{"workers: 3",
                "workers: 3 device { threads_per_rank: 0 }",
                "my.textproto:16:21: ",
                {"at least 1"}},
        Mistake{"workers: 3",
                "workers: 3 checkpoint { keep: 0 }",
                "my.textproto:16:25: ",
                {"checkpoint.keep is 0"}},
        Mistake{
            "workers: 3", "workers: 3 timeouts { step: 0 }", "my.textproto:16:23: ", {"timeouts.step is 0"}},
        Mistake{"workers: 3",
                "workers: 3 timeouts { step: 5 }",
                "my.textproto:16:23: ",
                {"timeouts.step is 5", "silence is 10", "must be longer"}},
        Mistake{
            "workers: 3", "workers: 3 timeouts { step: -1 }", "my.textproto:16:23: ", {"must be above 0"}},
        Mistake{"workers: 3",
                "workers: 3 timeouts { silence: 0.5 }",
                "my.textproto:16:23: ",
                {"timeouts.silence is 0.5", "must be at least 1"}},
        Mistake{"workers: 3",
                "workers: 3 resources { interval_seconds: 0.1 }",
                "my.textproto:16:24: ",
                {"resources.interval_seconds is 0.1", "at least 0.25"}},
        Mistake{
            "workers: 3", "workers: 3 price_per_hour: -1", "my.textproto:16:12: ", {"price_per_hour is -1"}},
        Mistake{"workers: 3",
                "workers: 3 name: \"a/b\"",
                "my.textproto:16:12: ",
                {"name is not a name", "letters"}}));

INSTANTIATE_TEST_SUITE_P(
    Contradictions, MistakeTest,
    ::testing::Values(
        Mistake{"strategy { parameter_server { servers: 2 bulk_synchronous {} } }",
                "strategy { local {} }",
                "my.textproto:16:1: ",
                {"workers is 3, but the strategy is local", "workers: 1", "mirrored {}"}},
        Mistake{"epochs: 5", "", "my.textproto: ", {"epochs and max_steps are both missing"}},
        Mistake{"epochs: 5", "epochs: 0", "my.textproto:15:1: ", {"epochs and max_steps are both missing"}},
        Mistake{"batch_size_per_worker: 128", "", "my.textproto: ", {"batch_size_per_worker is missing"}},
        Mistake{"sgd { momentum: 0.9 }",
                "sgd {} decoupled_weight_decay: true",
                "my.textproto:11:10: ",
                {"optimizer.decoupled_weight_decay is true, but optimizer.weight_decay is 0"}},
        Mistake{"sgd { momentum: 0.9 }",
                "sgd {} clip { global_norm: 1 }",
                "my.textproto:11:10: ",
                {"optimizer.clip is for updates whose gradients one process has before it begins",
                 "mirrored {}"}},
        Mistake{"sgd { momentum: 0.9 }",
                "sgd {} clip {}",
                "my.textproto:11:10: ",
                {"optimizer.clip.global_norm is missing"}},
        Mistake{"sgd { momentum: 0.9 }",
                "",
                "my.textproto:10:1: ",
                {"optimizer has no kind: write sgd {}", "adam {}"}},
        Mistake{"sgd { momentum: 0.9 }",
                "sgd { nesterov: true }",
                "my.textproto:11:9: ",
                {"optimizer.sgd.nesterov is true, but optimizer.sgd.momentum is 0"}},
        Mistake{"sgd { momentum: 0.9 }",
                "adam { beta_1: 1 }",
                "my.textproto:11:10: ",
                {"optimizer.adam.beta_1 is 1: must be at least 0 and below 1"}},
        Mistake{"sgd { momentum: 0.9 }",
                "adam { epsilon: 0 }",
                "my.textproto:11:10: ",
                {"optimizer.adam.epsilon is 0"}},
        Mistake{"sgd { momentum: 0.9 }",
                "rmsprop { decay: 0.99999999 }",
                "my.textproto:11:13: ",
                {"optimizer.rmsprop.decay is 0.99999999: must be at least 0 and below 1"}},
        Mistake{"sgd { momentum: 0.9 }",
                "adagrad { initial_accumulator: -1 }",
                "my.textproto:11:13: ",
                {"optimizer.adagrad.initial_accumulator is -1"}},
        Mistake{"learning_rate: 0.05",
                "learning_rate: 0.05 schedule { warm_up {} }",
                "my.textproto:12:34: ",
                {"optimizer.schedule.warm_up has no length: give samples or epochs"}},
        Mistake{"learning_rate: 0.05",
                "learning_rate: 0.05 schedule { warm_up { samples: 9 epochs: 1 } }",
                "my.textproto:12:34: ",
                {"optimizer.schedule.warm_up is given in samples and in epochs: remove one"}},
        Mistake{"learning_rate: 0.05",
                "learning_rate: 0.05 schedule { cosine_decay { samples: 9 epochs: 1 } }",
                "my.textproto:12:34: ",
                {"optimizer.schedule.cosine_decay is given in samples and in epochs"}},
        Mistake{"learning_rate: 0.05",
                "learning_rate: 0.05 schedule { step_decay {} }",
                "my.textproto:12:34: ",
                {"optimizer.schedule.step_decay has no step: list samples or epochs"}},
        Mistake{"learning_rate: 0.05",
                "learning_rate: 0.05 schedule { step_decay { epochs: [2, 2] } }",
                "my.textproto:12:34: ",
                {"optimizer.schedule.step_decay.epochs[1] is 2: must be above 2"}},
        Mistake{"learning_rate: 0.05",
                "learning_rate: 0.05 schedule { polynomial_decay { power: 0 } }",
                "my.textproto:12:53: ",
                {"optimizer.schedule.polynomial_decay.power is 0"}},
        Mistake{"units: 10 ",
                "units: 12 ",
                "my.textproto:4:19: ",
                {"dense.units is 12 in the last layer, but data.classes is 10"}},
        Mistake{"layer { flatten {} }",
                "layer { convolution { filters: 4 } } layer { flatten {} }",
                "my.textproto:2:11: ",
                {"model.layer[0].convolution.kernel_size is missing"}},
        Mistake{"layer { flatten {} }", "layer {}", "my.textproto:2:3: ", {"model.layer[0] has no kind"}},
        Mistake{"layer { flatten {} }",
                "layer { name: \"dense_1\" flatten {} }",
                "my.textproto:3:3: ",
                {"model.layer[1].name is 'dense_1', the name of an earlier layer"}},
        Mistake{"train_labels: \"labels\"", "", "my.textproto:7:3: ", {"data.idx.train_labels is missing"}},
        Mistake{"train_labels: \"labels\"",
                "train_labels: \"labels\" test_images: \"test\"",
                "my.textproto:7:3: ",
                {"data.idx.test_labels is missing", "both test files, or neither"}},
        Mistake{"idx { train_images: \"images\" train_labels: \"labels\" }",
                "",
                "my.textproto:6:1: ",
                {"data has no source"}},
        Mistake{"classes: 10",
                "classes: 10 mean: 0.3 compute_standardisation: true",
                "my.textproto:8:15: ",
                {"data.mean is given, but data.compute_standardisation is true"}},
        Mistake{"bulk_synchronous {}",
                "partitioner { fixed { shards: 11 } }",
                "my.textproto:17:64: ",
                {"fixed.shards is 11", "layer 'dense_2' has only 10 rows", "at most 10"}},
        Mistake{"bulk_synchronous {}",
                "partitioner { fixed {} }",
                "my.textproto:17:56: ",
                {"fixed.shards is missing"}}));

}  // namespace
}  // namespace tethys
