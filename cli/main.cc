// castor: trains transformer models that do not fit in the device's memory.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/signals.h"
#include "base/standard_error.h"
#include "cli/command_options.h"
#include "cli/describe/describe_command.h"
#include "cli/options.h"
#include "cli/output/exit_code.h"
#include "cli/output/fail.h"
#include "cli/output/json_errors.h"
#include "cli/output/out_of_memory.h"
#include "cli/output/standard_output.h"
#include "cli/output/version.h"
#include "cli/run/ranks.h"
#include "device/comm/launch_env.h"
#include "device/topology/memory_limits.h"

namespace castor::cli {
namespace {

// Lists it in the help, the completions and the manual page of each command;
// TakeJsonErrors has taken it by then.
void ListJsonErrors(CLI::App* app) {
  const std::string help =
      "write errors and notes to standard error as JSON, an object a line "
      "(docs/json.md)";
  app->add_flag(kJsonErrors, help);
  for (CLI::App* command : app->get_subcommands(nullptr)) {
    ListJsonErrors(command);
  }
}

// Returns CLI11's error, in our words where its own do not help. `path` has the
// words that lead to `app`, and `arguments` are the app's.
absl::Status UsageError(const CLI::App& app, const CLI::ParseError& error,
                        const std::string& path,
                        absl::Span<char* const> arguments) {
  const auto commands = app.get_subcommands(nullptr);
  if (commands.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(error.what(), " (see ", path, " --help)"));
  }
  const std::string first = arguments.empty() ? "" : arguments[0];
  std::string names;
  for (const CLI::App* command : commands) {
    const std::string name = command->get_name();
    absl::StrAppend(&names, names.empty() ? "" : ", ", name);
    if (name == first) {
      return UsageError(*command, error, absl::StrCat(path, " ", name),
                        arguments.subspan(1));
    }
  }
  const bool option = !first.empty() && first[0] == '-';
  return absl::InvalidArgumentError(absl::StrCat(
      first.empty()
          ? "a subcommand is needed"
          : absl::StrCat(option ? "unknown option \"" : "unknown subcommand \"",
                         first, "\""),
      "; there are ", names, " (see ", path, " --help)"));
}

// Refuses once, before ranks start, arguments that every rank would refuse.
absl::Status CheckTrainsArguments(std::vector<std::string> words) {
  const auto refuse = [](absl::string_view why) {
    return absl::InvalidArgumentError(absl::StrCat(
        why,
        "; it is castor launch [OPTIONS] CONFIG.json [OPTIONS of castor "
        "train] (see castor launch --help)"));
  };
  if (words.empty()) return refuse("CONFIG.json is missing");
  if (words[0][0] == '-') {
    return refuse(absl::StrCat("unknown option \"", words[0], "\""));
  }
  CLI::App app;
  TrainArguments train;
  AddTrain(&app, &train);
  std::reverse(words.begin(), words.end());  // as CLI11 wants it
  try {
    app.parse(words);
  } catch (const CLI::CallForHelp&) {
    return refuse("castor train --help shows the options of castor train");
  } catch (const CLI::ParseError& error) {
    return refuse(error.what());
  }
  return absl::OkStatus();
}

// The exit code of a command that ended with `code`. A command that succeeded
// fails all the same if what it printed could not be written.
int Printed(int code) {
  return FlushOutput() || code != kSuccess ? code : kFailure;
}

// The exit code for arguments that make no command. All ranks are given the
// same: rank 0 tells for all.
int RefuseUsage(const absl::Status& status) {
  const auto launch_env = DetectLaunch(CurrentEnvironment());
  if (!launch_env.ok() || launch_env->rank == 0) return Fail(status);
  LetFirstRankSpeak(/*group=*/nullptr);
  return ExitCode(status);
}

// The exit code of a rank beyond 0 where the work is one process's.
int LeaveToFirstRank(const LaunchEnv& ranks) {
  // torchrun's variables are those that are set, and forgotten, by hand.
  if (ranks.launcher == Launcher::kTorchrun) {
    TellNote("castor",
             absl::StrCat(
                 "nothing is done here: RANK=", ranks.rank,
                 " of WORLD_SIZE=", ranks.world_size,
                 " in the environment says that this is one of several ranks, "
                 "and rank 0 does it; if it is none, unset RANK and "
                 "WORLD_SIZE"));
  }
  return kSuccess;
}

int Main(int argc, char** argv) {
  CLI::App app(
      "Trains transformer models that do not fit in the device's memory.");
  app.name("castor");
  app.set_version_flag("--version", absl::StrCat("castor ", kVersion));
  app.require_subcommand(1);

  TrainArguments train;
  CLI::App* train_command =
      app.add_subcommand("train", "Trains a model as a configuration says.");
  AddTrain(train_command, &train);

  LaunchArguments launch;
  CLI::App* launch_command = app.add_subcommand(
      "launch", "Starts castor train as several ranks, here or elsewhere.");
  AddLaunch(launch_command, &launch);

  PlanArguments plan;
  CLI::App* plan_command = app.add_subcommand(
      "plan", "Says whether a run fits and what it moves; trains nothing.");
  AddPlan(plan_command, &plan);

  ResizeArguments resize;
  CLI::App* resize_command = app.add_subcommand(
      "resize", "Gives a run of castor train that goes on another budget.");
  AddResize(resize_command, &resize);

  EvaluateArguments evaluate;
  CLI::App* evaluate_command = app.add_subcommand(
      "evaluate", "Tells the loss of a model on the validation data.");
  AddEvaluate(evaluate_command, &evaluate);

  GenerateArguments generate;
  CLI::App* generate_command =
      app.add_subcommand("generate", "Lets a model go on with a text.");
  AddGenerate(generate_command, &generate);

  ImportConfigArguments import;
  CLI::App* import_command = app.add_subcommand(
      "import-config",
      "Makes a configuration of another system's, and says of each of its keys "
      "what became of it.");
  AddImportConfig(import_command, &import);

  ReplayArguments replay;
  AddReplay(app.add_subcommand("replay",
                               "Plans a recorded run under other conditions."),
            &replay);

  ExportArguments exported;
  CLI::App* export_command = app.add_subcommand(
      "export", "Writes a checkpoint as a Hugging Face directory.");
  AddExport(export_command, &exported);

  TokenizeArguments tokenize;
  AddTokenize(app.add_subcommand("tokenize",
                                 "Makes each line of standard input a JSON "
                                 "array of token ids."),
              &tokenize);

  CLI::App* trace_command =
      app.add_subcommand("trace", "Shows or exports the trace of a run.");
  trace_command->require_subcommand(1);
  TraceViewArguments view;
  CLI::App* view_command = trace_command->add_subcommand(
      "view", "Shows a trace in a browser on this machine.");
  AddTraceView(view_command, &view);
  TraceExportArguments trace_export;
  CLI::App* trace_export_command = trace_command->add_subcommand(
      "export", "Writes a trace as a page, for Perfetto, or as tables.");
  AddTraceExport(trace_export_command, &trace_export);

  InfoArguments info;
  CLI::App* info_command =
      app.add_subcommand("info", "Prints what this machine offers.");
  AddJson(info_command, &info.json);
  info_command
      ->add_flag("--measure", info.measure,
                 "measure how fast this machine is, and print rows for castor "
                 "plan --machine FILE (some seconds, all processors)")
      ->excludes("--json");

  DescribeArguments describe;
  CLI::App* describe_command = app.add_subcommand(
      "describe", "Prints these commands and options for a shell or for man.");
  AddDescribe(describe_command, &describe);
  ListJsonErrors(&app);

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return Printed(app.exit(error));
    return RefuseUsage(UsageError(
        app, error, "castor", absl::MakeSpan(argv, argc).subspan(argc > 0)));
  }
  if (const absl::Status machine = CheckMachineMemory(); !machine.ok()) {
    return RefuseUsage(machine);
  }
  if (*train_command) return Train(train);
  if (*launch_command) {
    launch.train = launch_command->remaining();
    const absl::Status status = CheckTrainsArguments(launch.train);
    return status.ok() ? Launch(launch) : Fail(status);
  }
  if (*info_command) return Printed(Info(info));

  // The commands below are one process's work. Under a launcher they are rank
  // 0's; a plan is of as many ranks as were started, if nothing else is asked
  // for.
  const absl::StatusOr<LaunchEnv> ranks = DetectLaunch(CurrentEnvironment());
  if (!ranks.ok()) return Fail(ranks.status());
  if (ranks->rank > 0) return LeaveToFirstRank(*ranks);
  if (*plan_command) {
    if (const int machines = plan.machine.world_size(); machines > 0) {
      plan.world_size = machines;
    } else if (plan_command->count("--world-size") == 0) {
      plan.world_size = ranks->world_size;
    }
    return Printed(PlanRun(plan));
  }
  if (*resize_command) return Printed(Resize(resize));
  if (*evaluate_command) return Printed(Evaluate(evaluate));
  if (*generate_command) return Printed(Generate(generate));
  if (*import_command) return Printed(ImportConfig(import));
  if (app.got_subcommand("replay")) return Printed(ReplayTrace(replay));
  if (*export_command) return Printed(Export(exported));
  if (app.got_subcommand("tokenize")) return Printed(Tokenize(tokenize));
  if (*view_command) return Printed(ViewTrace(view));
  if (*trace_export_command) return Printed(ExportTrace(trace_export));
  if (*describe_command) return Printed(Describe(app, describe));
  return kUserError;
}

}  // namespace
}  // namespace castor::cli

// Runs before the constructors of the libraries, of which some handle signals.
[[gnu::section(".preinit_array"),
  gnu::used]] static void (*const remember_ignored_signals)() =
    castor::RememberIgnoredSignals;

int main(int argc, char** argv) {
  castor::cli::OpenStandardStreams();
  castor::cli::TakeJsonErrors(&argc, argv);
  castor::FailWritesInsteadOfEnding();
  castor::cli::TellWhenOutOfMemory();
  return castor::cli::Main(argc, argv);
}
