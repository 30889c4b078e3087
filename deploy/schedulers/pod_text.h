// The parts that manifests of Kubernetes have in common, as YAML. Pure; any thread.
#ifndef TETHYS_DEPLOY_SCHEDULERS_POD_TEXT_H_
#define TETHYS_DEPLOY_SCHEDULERS_POD_TEXT_H_

#include <string>

#include "absl/strings/string_view.h"
#include "deploy/schedulers/manifest.h"

namespace tethys {

// The first lines of a manifest: comments on what it is and how it is used. `objects`: what kubectl makes of
// it, such as "a Service and a Job".
std::string HeadText(const ManifestRequest& request, absl::string_view objects);

// The ConfigMap with the job file and the Secret with the token, each followed by "---".
std::string JobAndTokenText(const ManifestRequest& request);

struct PodSpec {
  absl::string_view container;  // The container's name.
  absl::string_view from;       // The value of --from.
  bool gpu = false;             // The pod needs a GPU.
  bool results = false;         // The pod has the folder for results.
};
// The fields of a pod's spec, from `restartPolicy` on, each line indented by `indent` columns. The pod is not
// root and may do nothing that a training needs not: it fulfils the restricted Pod Security Standard.
std::string PodText(const ManifestRequest& request, const PodSpec& pod, int indent);

// Every line of `text` behind `indent` spaces; lines without text stay empty.
std::string Indented(absl::string_view text, int indent);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_SCHEDULERS_POD_TEXT_H_
