#include "deploy/schedulers/pod_text.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "deploy/schedulers/variables.h"
#include "deploy/text.h"

namespace tethys {
namespace {

// The user and the group of a pod's processes: those of images without a user of their own.
constexpr char kUser[] = "65532";

std::string VolumeText(absl::string_view name, const std::string& claim, absl::string_view access) {
  const std::string head = absl::StrCat("  - name: ", name, "\n");
  if (claim.empty()) return absl::StrCat(head, "    emptyDir: {}\n");
  return absl::StrCat(head, "    persistentVolumeClaim:\n      claimName: \"", claim, "\"\n", access);
}

}  // namespace

std::string Indented(absl::string_view text, int indent) {
  std::string out;
  for (const absl::string_view line : absl::StrSplit(absl::StripSuffix(text, "\n"), '\n')) {
    absl::StrAppend(&out, line.empty() ? "" : std::string(static_cast<size_t>(indent), ' '), line, "\n");
  }
  return out;
}

std::string HeadText(const ManifestRequest& request, absl::string_view objects) {
  std::string text = absl::StrCat(
      "A job of Tethys: ", ProcessesText(/*chief=*/true, request.shape.servers, request.shape.workers),
      ". Written by `tethys manifest`, for `kubectl apply -f -`, which makes ", objects,
      ". The Secret holds the token of this one run: do not publish this file.");
  if (!request.data_claim.empty()) {
    absl::StrAppend(&text, "\nThe claim ", request.data_claim, " must hold what the job reads from ",
                    request.data_folder, ".");
  }
  if (request.results_claim.empty()) {
    absl::StrAppend(
        &text,
        "\nWithout a claim for results, they vanish with the pods; the log of the chief's pod remains.");
  }
  return Wrap(text, "# ", 110);
}

std::string JobAndTokenText(const ManifestRequest& request) {
  return absl::StrReplaceAll(
      R"(apiVersion: v1
kind: ConfigMap
metadata:
  name: "@NAME@"
data:
  job.textproto: |
@JOB@---
apiVersion: v1
kind: Secret
metadata:
  name: "@NAME@"
stringData:
  token: "@TOKEN@"
---
)",
      {{"@NAME@", request.name}, {"@TOKEN@", request.secret}, {"@JOB@", Indented(request.job_text, 4)}});
}

std::string PodText(const ManifestRequest& request, const PodSpec& pod, int indent) {
  std::string mounts, volumes;
  if (!request.data_claim.empty()) {
    absl::StrAppend(&mounts, "      - name: data\n        mountPath: \"", request.data_folder,
                    "\"\n        readOnly: true\n");
    absl::StrAppend(&volumes, VolumeText("data", request.data_claim, "      readOnly: true\n"));
  }
  if (pod.results) {
    absl::StrAppend(&mounts, "      - name: results\n        mountPath: /results\n");
    absl::StrAppend(&volumes, VolumeText("results", request.results_claim, ""));
  }
  const std::string text = absl::StrReplaceAll(
      R"(restartPolicy: Never
securityContext:
  runAsNonRoot: true
  runAsUser: @USER@
  runAsGroup: @USER@
  fsGroup: @USER@
  seccompProfile:
    type: RuntimeDefault
containers:
  - name: @CONTAINER@
    image: "@IMAGE@"
    command: [tethys, train, /job/job.textproto, --from=@SCHEDULER@, --run_dir=/results/@NAME@, --resume]
    env:
      - name: TETHYS_TOKEN
        valueFrom:
          secretKeyRef:
            name: "@NAME@"
            key: token
      - name: HOME  # For caches; the user has no home folder.
        value: /tmp
    securityContext:
      allowPrivilegeEscalation: false
      capabilities:
        drop: [ALL]
@GPUS@    volumeMounts:
      - name: job
        mountPath: /job
        readOnly: true
      - name: scratch
        mountPath: /tmp
@MOUNTS@volumes:
  - name: job
    configMap:
      name: "@NAME@"
  - name: scratch
    emptyDir: {}
@VOLUMES@)",
      {{"@USER@", kUser},
       {"@CONTAINER@", pod.container},
       {"@IMAGE@", request.image},
       {"@SCHEDULER@", pod.from},
       {"@NAME@", request.name},
       {"@GPUS@", pod.gpu ? "    resources:\n      limits:\n        nvidia.com/gpu: 1\n" : ""},
       {"@MOUNTS@", mounts},
       {"@VOLUMES@", volumes}});
  return Indented(text, indent);
}

}  // namespace tethys
