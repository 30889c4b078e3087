#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "deploy/schedulers/manifest.h"
#include "deploy/schedulers/pod_text.h"

namespace tethys {
namespace {

std::string ReplicaText(const ManifestRequest& request, absl::string_view type, int replicas) {
  if (replicas == 0) return "";
  const PodSpec pod = {.container = "tensorflow",  // The operator looks for a container of this name.
                       .from = "tf_config",
                       .gpu = request.gpu && type == "Worker",
                       .results = type == "Chief"};
  return absl::StrReplaceAll(
      R"(    @TYPE@:
      replicas: @COUNT@
      restartPolicy: Never
      template:
        spec:
@POD@)",
      {{"@TYPE@", type}, {"@COUNT@", absl::StrCat(replicas)}, {"@POD@", PodText(request, pod, 10)}});
}

}  // namespace

std::string TfJobManifest(const ManifestRequest& request) {
  return absl::StrReplaceAll(
      R"(@HEAD@@PARTS@apiVersion: kubeflow.org/v1
kind: TFJob
metadata:
  name: "@NAME@"
spec:
  tfReplicaSpecs:
@REPLICAS@)",
      {{"@HEAD@", HeadText(request, "a ConfigMap, a Secret and a TFJob of Kubeflow")},
       {"@PARTS@", JobAndTokenText(request)},
       {"@NAME@", request.name},
       {"@REPLICAS@",
        absl::StrCat(ReplicaText(request, "Chief", 1), ReplicaText(request, "PS", request.shape.servers),
                     ReplicaText(request, "Worker", request.shape.workers))}});
}

}  // namespace tethys
