// castor: trains transformer models that do not fit in the device's memory.
#include <cstdio>
#include <string>

#include <CLI/CLI.hpp>

#include "absl/strings/str_cat.h"
#include "cli/command.h"

namespace castor::cli {
namespace {

void AddConfig(CLI::App* command, std::string* config,
               std::vector<std::string>* overrides) {
  command->add_option("CONFIG", *config, "the run's configuration (JSON)")
      ->required();
  command
      ->add_option("--set", *overrides,
                   "KEY=VALUE: replaces a key of the configuration, e.g. "
                   "memory.placement_policy=cpu; may be repeated")
      ->take_all()
      ->allow_extra_args(false)
      ->type_name("KEY=VALUE");
}

// An empty value is most often a shell variable that was not set: `--resume ""`
// must not start a new run.
CLI::Validator NotEmpty() {
  return CLI::Validator(
      [](std::string& value) {
        return value.empty() ? std::string("its value is empty")
                             : std::string();
      },
      "", "not empty");
}

// What CLI11 found wrong, in our words where its own do not help.
absl::Status UsageError(const CLI::App& app, const CLI::ParseError& error,
                        const std::string& first_argument) {
  const auto commands = app.get_subcommands(nullptr);
  std::string names;
  for (const CLI::App* command : commands) {
    absl::StrAppend(&names, names.empty() ? "" : ", ", command->get_name());
    if (command->get_name() == first_argument) {
      return absl::InvalidArgumentError(
          absl::StrCat(error.what(), " (see castor ", first_argument,
                       " --help)"));
    }
  }
  const bool option = !first_argument.empty() && first_argument[0] == '-';
  return absl::InvalidArgumentError(absl::StrCat(
      first_argument.empty()
          ? "a subcommand is needed"
          : absl::StrCat(option ? "unknown option \"" : "unknown subcommand \"",
                         first_argument, "\""),
      "; there are ", names, " (see castor --help)"));
}

int Main(int argc, char** argv) {
  CLI::App app(
      "Trains transformer models that do not fit in the device's memory.");
  app.name("castor");
  app.require_subcommand(1);

  TrainArguments train;
  CLI::App* train_command =
      app.add_subcommand("train", "Trains a model as a configuration says.");
  AddConfig(train_command, &train.config_path, &train.overrides);
  train_command
      ->add_option("--resume", train.resume,
                   "continue from this checkpoint file, or from the "
                   "\"latest\" valid one in checkpoint.dir")
      ->type_name("CHECKPOINT")
      ->check(NotEmpty());
  train_command
      ->add_option("--summary", train.summary_path,
                   "write the run's figures to this JSON file")
      ->type_name("FILE")
      ->check(NotEmpty());
  train_command
      ->add_option("--trace", train.trace_path,
                   "write a trace to this file (docs/trace-format.md)")
      ->type_name("FILE")
      ->check(NotEmpty());
  train_command
      ->add_option("--trace-steps", train.trace_steps,
                   "the steps to trace in full; without it the warm-up and "
                   "the 4 steps after it")
      ->type_name("FIRST:LAST")
      ->check(NotEmpty());
  train_command
      ->add_option("--dashboard", train.live.dashboard,
                   "show the run in a browser, at this port of this machine; "
                   "0: any free one")
      ->type_name("PORT")
      ->check(NotEmpty());
  train_command
      ->add_option("--tensorboard", train.live.tensorboard,
                   "write TensorBoard's event files to this directory")
      ->type_name("DIR")
      ->check(NotEmpty());

  PlanArguments plan;
  CLI::App* plan_command = app.add_subcommand(
      "plan", "Says whether a run fits and what it moves; trains nothing.");
  AddConfig(plan_command, &plan.config_path, &plan.overrides);

  std::string checkpoint, directory;
  CLI::App* export_command = app.add_subcommand(
      "export", "Writes a checkpoint as a Hugging Face directory.");
  export_command
      ->add_option("CHECKPOINT", checkpoint,
                   "a checkpoint file, or a directory of them")
      ->required();
  export_command->add_option("DIR", directory, "the directory to write")
      ->required();

  CLI::App* info_command =
      app.add_subcommand("info", "Prints what this machine offers.");

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help
    return Fail(UsageError(app, error, argc > 1 ? argv[1] : ""));
  }
  if (*train_command) return Train(train);
  if (*plan_command) return PlanRun(plan);
  if (*export_command) return Export(checkpoint, directory);
  if (*info_command) return Info();
  return kUserError;
}

}  // namespace
}  // namespace castor::cli

int main(int argc, char** argv) { return castor::cli::Main(argc, argv); }
