#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "deploy/schedulers/manifest.h"
#include "deploy/schedulers/pod_text.h"

namespace tethys {

// All pods of an Indexed Job have one template. So the pods of the chief and of servers get a GPU, too, if
// workers need one, and all pods mount the claim for results.
std::string KubernetesManifest(const ManifestRequest& request) {
  return absl::StrReplaceAll(
      R"(@HEAD@apiVersion: v1
kind: Service
metadata:
  name: "@NAME@"
spec:
  clusterIP: None                 # Headless: names of pods resolve to their addresses.
  publishNotReadyAddresses: true  # Pods find one another while they start.
  selector:
    job-name: "@NAME@"
---
@PARTS@apiVersion: batch/v1
kind: Job
metadata:
  name: "@NAME@"
spec:
  completionMode: Indexed
  completions: @PODS@
  parallelism: @PODS@  # All at once: the run waits for all processes.
  backoffLimit: 0  # A lost process ends the run; delete the Job and apply a new manifest to go on.
  template:
    metadata:
      labels:
        app: tethys
    spec:
      subdomain: "@NAME@"  # The pod with the index I is @NAME@-I.@NAME@.
@POD@)",
      {{"@HEAD@", HeadText(request, "a Service, a ConfigMap, a Secret and an Indexed Job")},
       {"@NAME@", request.name},
       {"@PARTS@", JobAndTokenText(request)},
       {"@PODS@", absl::StrCat(1 + request.shape.servers + request.shape.workers)},
       {"@POD@",
        PodText(request, {.container = "tethys", .from = "kubernetes", .gpu = request.gpu, .results = true},
                6)}});
}

}  // namespace tethys
