#include "cli/trace/trace_export_command.h"

#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/directory_entry.h"
#include "base/enough_memory.h"
#include "base/status_macros.h"
#include "cli/output/exit_code.h"
#include "cli/output/fail.h"
#include "cli/output/output_file.h"
#include "cli/trace/trace_source.h"
#include "insight/export/csv.h"
#include "insight/export/perfetto.h"
#include "insight/export/svg.h"
#include "viewer/page.h"

namespace castor::cli {
namespace {

// Nothing that is there takes harm: neither what is no regular file, nor the
// traces themselves.
absl::Status CheckOutput(const std::string& out,
                         const TraceExportArguments& arguments) {
  CASTOR_RETURN_IF_ERROR(CheckRegular(out));
  return CheckReplacesNone(out, {{"the trace itself", arguments.trace_path},
                                 {"the trace itself", arguments.compare_path}});
}

// "html", "svg", "perfetto" or "csv": as asked, or as the name of what is to be
// written tells. InvalidArgument: it tells of something else, as ".pdf" does.
absl::StatusOr<absl::string_view> FormatOf(
    const TraceExportArguments& arguments) {
  if (!arguments.format.empty()) return absl::string_view(arguments.format);
  const std::filesystem::path out = arguments.out_path;
  const std::string extension = absl::AsciiStrToLower(out.extension().string());
  if (extension == ".svg") return "svg";
  if (extension == ".json" || extension == ".perfetto") return "perfetto";
  std::error_code error;
  if (extension == ".csv" || !out.has_filename() ||
      std::filesystem::is_directory(out, error)) {
    return "csv";
  }
  if (extension.empty() || extension == ".html" || extension == ".htm") {
    return "html";
  }
  CASTOR_RETURN_IF_ERROR(CheckOutput(arguments.out_path, arguments));
  return absl::InvalidArgumentError(absl::StrCat(
      arguments.out_path, ": a trace is not exported as ", extension,
      "; name it .html (the viewer's page), .svg (a picture of one step), "
      ".json (for Perfetto) or a directory (tables), or say which by "
      "--format"));
}

absl::Status ExportHtml(const TraceExportArguments& arguments) {
  std::vector<std::string> paths = {arguments.trace_path};
  if (!arguments.compare_path.empty()) {
    paths.push_back(arguments.compare_path);
  }
  AnnounceReading(paths);
  CASTOR_ASSIGN_OR_RETURN(const auto json, TraceSource(paths).Json());
  return WriteWhole(arguments.out_path, PageWithData(ViewerPage(), *json));
}

// The directories of an export that are new, which go, with the tables that are
// in them, where it fails.
class NewDirectories {
 public:
  NewDirectories() = default;
  ~NewDirectories() {
    for (auto made = made_.rbegin(); made != made_.rend(); ++made) {
      for (const std::string& table : CsvTableNames()) {
        unlink(absl::StrCat(*made, "/", table, ".csv").c_str());
      }
      rmdir(made->c_str());  // stays if anything else is in it
    }
  }
  NewDirectories(const NewDirectories&) = delete;
  NewDirectories& operator=(const NewDirectories&) = delete;

  absl::Status Make(const std::string& directory) {
    CASTOR_ASSIGN_OR_RETURN(const std::vector<std::string> made,
                            MakeDirectories(directory));
    made_.insert(made_.end(), made.begin(), made.end());
    return absl::OkStatus();
  }
  void Keep() { made_.clear(); }

 private:
  std::vector<std::string> made_;
};

absl::Status ExportCsv(const TraceExportArguments& arguments) {
  const std::string& directory = arguments.out_path;
  std::error_code error;
  if (std::filesystem::exists(directory, error) &&
      !std::filesystem::is_directory(directory, error)) {
    return absl::InvalidArgumentError(absl::StrCat(
        directory, " is no directory; csv is a directory of tables"));
  }
  AnnounceReading({arguments.trace_path});
  CASTOR_ASSIGN_OR_RETURN(const std::vector<TraceView> ranks,
                          LoadTrace(arguments.trace_path));
  std::vector<std::string> directories;  // of the tables
  for (const TraceView& view : ranks) {
    directories.push_back(
        ranks.size() == 1
            ? directory
            : absl::StrCat(directory, "/", CsvRankDirectory(view.run->rank)));
    for (const std::string& table : CsvTableNames()) {
      CASTOR_RETURN_IF_ERROR(CheckOutput(
          absl::StrCat(directories.back(), "/", table, ".csv"), arguments));
    }
  }
  NewDirectories made;
  for (const std::string& each : directories) {
    CASTOR_RETURN_IF_ERROR(made.Make(each));
  }
  CASTOR_RETURN_IF_ERROR(WriteCsvOfRanks(ranks, directory).status());
  made.Keep();
  return absl::OkStatus();
}

absl::Status ExportTo(const TraceExportArguments& arguments) {
  CASTOR_ASSIGN_OR_RETURN(const absl::string_view format, FormatOf(arguments));
  if (format != "html" && !arguments.compare_path.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--compare: ", format, " holds one trace; html shows two"));
  }
  if (format == "csv") {
    CASTOR_RETURN_IF_ERROR(ExportCsv(arguments));
  } else {
    CASTOR_RETURN_IF_ERROR(CheckOutput(arguments.out_path, arguments));
    const std::string target = LinkTarget(arguments.out_path);
    CASTOR_RETURN_IF_ERROR(CheckWritable(target));
    if (format == "html") {
      CASTOR_RETURN_IF_ERROR(ExportHtml(arguments));
    } else {
      AnnounceReading({arguments.trace_path});
      CASTOR_ASSIGN_OR_RETURN(const std::vector<TraceView> ranks,
                              LoadTrace(arguments.trace_path));
      if (format == "svg") {
        CASTOR_ASSIGN_OR_RETURN(const std::string picture,
                                SvgPicture(ranks.front()));
        CASTOR_RETURN_IF_ERROR(WriteWhole(arguments.out_path, picture));
      } else {
        CASTOR_RETURN_IF_ERROR(WritePerfetto(ranks, target));
      }
    }
  }
  std::printf("exported %s to %s (%s)\n", arguments.trace_path.c_str(),
              arguments.out_path.c_str(), std::string(format).c_str());
  return absl::OkStatus();
}

}  // namespace

int ExportTrace(const TraceExportArguments& arguments) {
  const absl::Status status =
      IfMemoryAllows(absl::StrCat("exporting ", arguments.trace_path),
                     [&] { return ExportTo(arguments); });
  return status.ok() ? kSuccess : Fail(status);
}

}  // namespace castor::cli
