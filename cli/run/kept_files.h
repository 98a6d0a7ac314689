// The files that go with a model: its tokenizer's, its settings for generation.
// Its run, its checkpoints and their exports hand them on.
#ifndef CASTOR_CLI_RUN_KEPT_FILES_H_
#define CASTOR_CLI_RUN_KEPT_FILES_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "run/checkpoint/checkpoint.h"
#include "run/config/config.h"
#include "runtime/weights/copied_files.h"

namespace castor::cli {

// Returns the files with which `config` trains: data.tokenizer's, else those of
// the model's directory; none of a tokenizer where bytes are tokens. The
// config.json of its directory has been read.
absl::StatusOr<CopiedFiles> FilesOfRun(const Config& config);

// Returns the files of a checkpoint. For one that keeps none, as older ones do,
// they come from the directories of its run; standard error says which of these
// is gone.
absl::StatusOr<CopiedFiles> FilesOfCheckpoint(
    const CheckpointMetadata& metadata);

// Files in a directory of their own, which is removed with this object.
class UnpackedFiles {
 public:
  static absl::StatusOr<std::unique_ptr<UnpackedFiles>> Create(
      const CopiedFiles& files);
  ~UnpackedFiles();
  UnpackedFiles(const UnpackedFiles&) = delete;
  UnpackedFiles& operator=(const UnpackedFiles&) = delete;

  const std::string& directory() const { return directory_; }

 private:
  explicit UnpackedFiles(std::string directory)
      : directory_(std::move(directory)) {}
  const std::string directory_;
};

}  // namespace castor::cli

#endif  // CASTOR_CLI_RUN_KEPT_FILES_H_
