#include "cli/launch/remote_line.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

namespace castor::cli {
namespace {

// How long a rank has after the launcher's end, in seconds.
constexpr int kGraceSeconds = 15;

constexpr absl::string_view kPrefixes[] = {
    "CASTOR_", "CUDA_", "GOMP_", "KMP_", "MKL_",    "NCCL_",
    "NVIDIA_", "OMP_",  "DNNL_", "UCX_", "ONEDNN_", "OPENBLAS_"};

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
  // Not as words of a command, which every user of that machine may read.
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

std::map<std::string, std::string> VariablesToCarry(
    const std::map<std::string, std::string>& environment) {
  std::map<std::string, std::string> carried;
  for (const auto& [name, value] : environment) {
    if (!std::all_of(name.begin(), name.end(), [](char c) {
          return absl::ascii_isalnum(c) || c == '_';
        })) {
      continue;
    }
    bool carry = name == "LD_LIBRARY_PATH";
    for (const absl::string_view prefix : kPrefixes) {
      carry |= absl::StartsWith(name, prefix);
    }
    if (carry) carried[name] = value;
  }
  return carried;
}

}  // namespace castor::cli
