#include "cli/launch/remote_line.h"

#include <algorithm>
#include <iterator>
#include <string_view>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

namespace castor::cli {
namespace {

// How long a rank has after the launcher's end, in seconds.
constexpr int kGraceSeconds = 15;

// The variables that a rank elsewhere is given where they are set. These are
// names, not prefixes: others keep keys of theirs under the same
// (NVIDIA_API_KEY).
constexpr absl::string_view kNames[] = {
    // Libraries.
    "LD_LIBRARY_PATH",
    // Threads.
    "GOMP_CPU_AFFINITY", "GOMP_SPINCOUNT", "GOMP_STACKSIZE", "KMP_AFFINITY",
    "KMP_BLOCKTIME", "KMP_HW_SUBSET", "KMP_STACKSIZE", "OMP_DYNAMIC",
    "OMP_MAX_ACTIVE_LEVELS", "OMP_NUM_THREADS", "OMP_PLACES", "OMP_PROC_BIND",
    "OMP_SCHEDULE", "OMP_STACKSIZE", "OMP_THREAD_LIMIT", "OMP_WAIT_POLICY",
    // Mathematics.
    "DNNL_MAX_CPU_ISA", "DNNL_VERBOSE", "MKL_NUM_THREADS",
    "NVIDIA_TF32_OVERRIDE", "ONEDNN_MAX_CPU_ISA", "ONEDNN_VERBOSE",
    "OPENBLAS_NUM_THREADS",
    // GPUs.
    "CUDA_CACHE_DISABLE", "CUDA_CACHE_MAXSIZE", "CUDA_CACHE_PATH",
    "CUDA_DEVICE_MAX_CONNECTIONS", "CUDA_DEVICE_ORDER", "CUDA_HOME",
    "CUDA_LAUNCH_BLOCKING", "CUDA_MODULE_LOADING", "CUDA_PATH",
    "CUDA_VISIBLE_DEVICES", "NVIDIA_DRIVER_CAPABILITIES",
    "NVIDIA_VISIBLE_DEVICES",
    // Networks.
    "NCCL_ALGO", "NCCL_BUFFSIZE", "NCCL_COLLNET_ENABLE", "NCCL_COMM_BLOCKING",
    "NCCL_CONF_FILE", "NCCL_CROSS_NIC", "NCCL_CUMEM_ENABLE", "NCCL_DEBUG",
    "NCCL_DEBUG_FILE", "NCCL_DEBUG_SUBSYS", "NCCL_DMABUF_ENABLE",
    "NCCL_IB_ADAPTIVE_ROUTING", "NCCL_IB_CUDA_SUPPORT", "NCCL_IB_DISABLE",
    "NCCL_IB_GID_INDEX", "NCCL_IB_HCA", "NCCL_IB_PCI_RELAXED_ORDERING",
    "NCCL_IB_QPS_PER_CONNECTION", "NCCL_IB_RETRY_CNT", "NCCL_IB_SL",
    "NCCL_IB_TC", "NCCL_IB_TIMEOUT", "NCCL_LAUNCH_MODE", "NCCL_MAX_CTAS",
    "NCCL_MAX_NCHANNELS", "NCCL_MIN_CTAS", "NCCL_MIN_NCHANNELS", "NCCL_NET",
    "NCCL_NET_GDR_LEVEL", "NCCL_NET_GDR_READ", "NCCL_NET_PLUGIN",
    "NCCL_NET_SHARED_BUFFERS", "NCCL_NTHREADS", "NCCL_NVLS_ENABLE",
    "NCCL_P2P_DISABLE", "NCCL_P2P_LEVEL", "NCCL_PROTO", "NCCL_SHM_DISABLE",
    "NCCL_SOCKET_FAMILY", "NCCL_SOCKET_IFNAME", "NCCL_SOCKET_NTHREADS",
    "NCCL_TOPO_FILE", "NCCL_TUNER_PLUGIN"};

constexpr bool LooksLikeASecret(absl::string_view name) {
  // Abseil's own string_view is not searched when the compiler runs.
  const std::string_view text(name.data(), name.size());
  for (const char* word : {"KEY", "TOKEN", "SECRET", "PASS", "CREDENTIAL"}) {
    if (text.find(word) != std::string_view::npos) return true;
  }
  return false;
}
static_assert(std::none_of(std::begin(kNames), std::end(kNames),
                           LooksLikeASecret));

// The variables that the launcher sets for each rank itself.
constexpr absl::string_view kOwnNames[] = {"CASTOR_MASTER_SOCKET",
                                           "CASTOR_RUN_ID",
                                           "CASTOR_SECRET",
                                           "CASTOR_SECRET_FILE",
                                           "LOCAL_RANK",
                                           "LOCAL_WORLD_SIZE",
                                           "MASTER_ADDR",
                                           "MASTER_PORT",
                                           "RANK",
                                           "WORLD_SIZE"};

}  // namespace

std::string ShellQuote(absl::string_view text) {
  return absl::StrCat(
      "'", absl::StrReplaceAll(text, {{"'", "'\\''"}, {"\n", "'\"$n\"'"}}),
      "'");
}

absl::string_view RemoteCommand() {
  return "exec /bin/sh -c 'IFS= read -r line && eval \"$line\"'";
}

std::string RemoteLine(const std::string& directory,
                       const std::map<std::string, std::string>& variables,
                       const std::vector<std::string>& program) {
  std::string line = absl::StrCat("n=$(printf '\\nx'); n=${n%x}; cd ",
                                  ShellQuote(directory), " || exit 2; ");
  // $$ stays the shell's number, which becomes the program's.
  absl::StrAppend(
      &line,
      "exec 3<&0 </dev/null; { while read -r s <&3; do kill -s \"$s\" "
      "$$; done; kill -s TERM $$; i=0; while kill -s 0 $$ && [ $i -lt ",
      kGraceSeconds,
      " ]; do sleep 1; i=$((i+1)); done; kill -s KILL $$; } >/dev/null 2>&1 "
      "& ");
  // Variables are not words of a command, which every user of that machine may
  // read.
  for (const auto& [name, value] : variables) {
    absl::StrAppend(&line, "export ", name, "=", ShellQuote(value), "; ");
  }
  absl::StrAppend(&line, "exec");
  for (const std::string& word : program) {
    absl::StrAppend(&line, " ", ShellQuote(word));
  }
  absl::StrAppend(&line, " 3<&-\n");
  return line;
}

absl::StatusOr<std::map<std::string, std::string>> VariablesToCarry(
    const std::map<std::string, std::string>& environment,
    const std::vector<std::string>& more) {
  std::map<std::string, std::string> carried;
  for (const absl::string_view name : kNames) {
    const auto found = environment.find(std::string(name));
    if (found != environment.end()) carried.insert(*found);
  }
  for (const std::string& name : more) {
    const auto refuse = [&](absl::string_view why) {
      return absl::InvalidArgumentError(
          absl::StrCat("--export ", name, ": ", why));
    };
    const bool is_name = !name.empty() && !absl::ascii_isdigit(name[0]) &&
                         std::all_of(name.begin(), name.end(), [](char c) {
                           return absl::ascii_isalnum(c) || c == '_';
                         });
    if (!is_name) return refuse("no variable has such a name");
    if (std::count(std::begin(kOwnNames), std::end(kOwnNames), name) > 0) {
      return refuse("castor launch sets it itself");
    }
    const auto found = environment.find(name);
    if (found == environment.end()) return refuse("it is not set here");
    carried.insert(*found);
  }
  return carried;
}

}  // namespace castor::cli
