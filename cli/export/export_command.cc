#include "cli/export/export_command.h"

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/annotate.h"
#include "base/status_macros.h"
#include "base/strict_json.h"
#include "base/units.h"
#include "base/with_type.h"
#include "cli/output/exit_code.h"
#include "cli/output/fail.h"
#include "cli/run/find_checkpoint.h"
#include "cli/run/kept_files.h"
#include "cli/run/session.h"
#include "models/families.h"
#include "run/checkpoint/checkpoint.h"
#include "runtime/weights/hf_export.h"

namespace castor::cli {
namespace {

absl::StatusOr<ExportOptions> ReadOptions(const ExportArguments& arguments) {
  ExportOptions options;
  std::vector<absl::string_view> names;
  bool known = false;
  for (const DType dtype : kAllTypes) {
    names.push_back(DTypeName(dtype));
    if (arguments.dtype != names.back()) continue;
    options.dtype = dtype;
    known = true;
  }
  if (!known) {
    return absl::InvalidArgumentError(
        absl::StrCat("--dtype: ", QuotedForMessage(arguments.dtype),
                     " is none of ", absl::StrJoin(names, ", ")));
  }
  if (!arguments.max_shard_size.empty()) {
    const auto bytes = ParseBytes(arguments.max_shard_size);
    CASTOR_RETURN_IF_ERROR(Annotate("--max-shard-size", bytes.status()));
    if (*bytes < 1) {
      return absl::InvalidArgumentError(
          "--max-shard-size: a file cannot be smaller than a byte");
    }
    options.max_shard_bytes = *bytes;
  }
  return options;
}

absl::Status ExportTo(const ExportArguments& arguments) {
  CASTOR_ASSIGN_OR_RETURN(ExportOptions options, ReadOptions(arguments));
  CASTOR_ASSIGN_OR_RETURN(const std::string checkpoint,
                          FindCheckpoint(arguments.checkpoint));
  CASTOR_ASSIGN_OR_RETURN(const std::unique_ptr<CheckpointReader> reader,
                          CheckpointReader::Open(checkpoint));
  CASTOR_ASSIGN_OR_RETURN(const CheckpointMetadata metadata,
                          ReadMetadata(*reader, models::Reader()));
  CASTOR_RETURN_IF_ERROR(CheckHasModel(*reader, metadata));
  // All of it, before anything is written.
  CASTOR_RETURN_IF_ERROR(reader->VerifyAll());
  // The model without bytes: its parameters' names and shapes.
  Engine engine(DType::kFloat32, 0);
  CASTOR_ASSIGN_OR_RETURN(const std::unique_ptr<Model> model,
                          MakeModel(engine, metadata.config.model));
  CASTOR_ASSIGN_OR_RETURN(options.copied, FilesOfCheckpoint(metadata));
  CASTOR_RETURN_IF_ERROR(ExportCheckpoint(
      *reader, engine.parameters(),
      models::ExportedConfigOf(metadata.config.model, options.dtype), options,
      arguments.directory));
  std::printf("exported %s (step %ld) to %s\n", checkpoint.c_str(),
              static_cast<long>(metadata.state.trainer.step),
              arguments.directory.c_str());
  return absl::OkStatus();
}

}  // namespace

int Export(const ExportArguments& arguments) {
  const absl::Status status = ExportTo(arguments);
  return status.ok() ? kSuccess : Fail(status);
}

}  // namespace castor::cli
