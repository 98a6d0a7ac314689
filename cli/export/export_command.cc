#include "cli/export/export_command.h"

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "base/status_macros.h"
#include "cli/output/exit_code.h"
#include "cli/output/fail.h"
#include "cli/run/session.h"
#include "models/families.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/checkpoint/checkpoint_dir.h"
#include "runtime/weights/pretrained.h"

namespace castor::cli {
namespace {

absl::Status ExportTo(std::string checkpoint, const std::string& directory) {
  if (!IsCheckpoint(checkpoint)) {
    std::vector<std::string> skipped;
    CASTOR_ASSIGN_OR_RETURN(const CheckpointEntry entry,
                            CheckpointDir(checkpoint).FindLatest(&skipped));
    for (const std::string& message : skipped) {
      std::fprintf(stderr, "castor: %s\n", message.c_str());
    }
    checkpoint = entry.path;
  }
  CASTOR_ASSIGN_OR_RETURN(const std::unique_ptr<CheckpointReader> reader,
                          CheckpointReader::Open(checkpoint));
  CASTOR_ASSIGN_OR_RETURN(const CheckpointMetadata metadata,
                          ReadMetadata(*reader, models::Reader()));
  // All of it, before anything is written.
  CASTOR_RETURN_IF_ERROR(reader->VerifyAll());
  // The model without bytes: its parameters' names and shapes.
  Engine engine(DType::kFloat32, 0);
  CASTOR_ASSIGN_OR_RETURN(const std::unique_ptr<Model> model,
                          MakeModel(engine, metadata.config.model));
  CASTOR_RETURN_IF_ERROR(ExportCheckpoint(
      *reader, engine.parameters(),
      models::ExportedConfigOf(metadata.config.model), directory));
  std::printf("exported %s (step %ld) to %s\n", checkpoint.c_str(),
              static_cast<long>(metadata.state.trainer.step),
              directory.c_str());
  return absl::OkStatus();
}

}  // namespace

int Export(const std::string& checkpoint, const std::string& directory) {
  const absl::Status status = ExportTo(checkpoint, directory);
  return status.ok() ? kSuccess : Fail(status);
}

}  // namespace castor::cli
