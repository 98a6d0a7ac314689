// Files that a command writes, whole or not at all.
#ifndef CASTOR_CLI_OUTPUT_OUTPUT_FILE_H_
#define CASTOR_CLI_OUTPUT_OUTPUT_FILE_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace castor::cli {

// Checks before the work what would otherwise be known only after it.
// InvalidArgument: there is something at `path` that is not a regular file; a
// file that takes its name by a rename must not take that of a directory or
// device.
absl::Status CheckWritable(const std::string& path);

// Does the first half of that: makes no file.
absl::Status CheckRegular(const std::string& path);

// A file that a command reads, or another one that it writes, and its name in
// messages: "data.train". An empty path is none.
struct OtherFile {
  std::string name;
  std::string path;
};

// Returns the weights, configuration and tokenizer in a Hugging Face directory,
// as files of that name. "", or no directory: none.
std::vector<OtherFile> FilesOfModel(absl::string_view name,
                                    const std::string& directory);

// Checks that writing `path` replaces none of `others`, and no checkpoint.
// InvalidArgument: it is one of them, by whatever name.
absl::Status CheckReplacesNone(const std::string& path,
                               absl::Span<const OtherFile> others);

// Returns the file that `path` leads to: a rename would put a file in a link's
// place, not in its target's.
std::string LinkTarget(const std::string& path);

// Writes `text` to `path`, which is checked and resolved as above.
absl::Status WriteWhole(const std::string& path, absl::string_view text);

}  // namespace castor::cli

#endif  // CASTOR_CLI_OUTPUT_OUTPUT_FILE_H_
