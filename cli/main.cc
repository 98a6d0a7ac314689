// castor: trains transformer models that do not fit in the device's memory.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/signals.h"
#include "cli/describe/describe_command.h"
#include "cli/evaluate/evaluate_command.h"
#include "cli/export/export_command.h"
#include "cli/generate/generate_command.h"
#include "cli/import_config/import_config_command.h"
#include "cli/info/info_command.h"
#include "cli/launch/launch_command.h"
#include "cli/options.h"
#include "cli/output/exit_code.h"
#include "cli/output/fail.h"
#include "cli/output/out_of_memory.h"
#include "cli/output/standard_output.h"
#include "cli/output/version.h"
#include "cli/plan/plan_command.h"
#include "cli/replay/replay_command.h"
#include "cli/resize/resize_command.h"
#include "cli/run/ranks.h"
#include "cli/tokenize/tokenize_command.h"
#include "cli/trace/trace_export_command.h"
#include "cli/trace/trace_view_command.h"
#include "cli/train/train_command.h"
#include "device/comm/launch_env.h"
#include "memory/plan/blocks/kept_blocks.h"
#include "memory/plan/policy/policies.h"
#include "run/config/foreign/foreign_config.h"

namespace castor::cli {
namespace {

// What CLI11 found wrong, in our words where its own do not help.
// `path` leads to `app`, of which `arguments` are.
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

// Both `castor trace` commands take one trace, or two.
void AddTraces(CLI::App* command, std::string* trace, std::string* compare) {
  command
      ->add_option("TRACE", *trace,
                   "the file that castor train --trace wrote; its run may "
                   "still go on")
      ->required()
      ->check(NotEmpty());
  command
      ->add_option("--compare", *compare,
                   "show this one beside it, on one scale, and what changed")
      ->type_name("TRACE")
      ->check(NotEmpty());
}

void AddReplay(CLI::App* command, ReplayArguments* replay) {
  command->add_option("TRACE", replay->trace_path, "a trace of a run")
      ->required();
  AddText(command, "--device-memory", &replay->device_memory, "SIZE",
          "the device's budget, as in a configuration: 8GiB, unlimited");
  AddText(command, "--host-memory", &replay->host_memory, "SIZE",
          "the host's budget");
  std::vector<absl::string_view> policies;
  for (const PlacementPolicy& policy : Policies()) {
    policies.push_back(policy.name);
  }
  const std::string names = absl::StrJoin(policies, ", ");
  AddText(command, "--policy", &replay->policy, "POLICY", names);
  AddText(command, "--bus-gbps", &replay->bus_gbps, "GB/s",
          "the bus's speed in each direction");
  AddText(command, "--prefetch", &replay->prefetch, "BOOL", "true or false");
  AddText(command, "--activation-checkpointing",
          &replay->activation_checkpointing, "HOW",
          absl::StrJoin(kActivationCheckpointings, ", "));
  command->add_flag("--sweep", replay->sweep,
                    "over the budgets from the smallest that fits to what "
                    "everything takes, and over every policy without --policy");
  AddText(command, "--csv", &replay->csv_path, "FILE",
          "write the table to this file");
  AddText(command, "--picture", &replay->picture_path, "FILE",
          "draw the sweep into this SVG file");
  AddJson(command, &replay->json);
}

void AddTrain(CLI::App* command, TrainArguments* train) {
  AddConfig(command, &train->config_path, &train->overrides);
  AddText(command, "--resume", &train->resume, "CHECKPOINT",
          "continue from this checkpoint file, or from the "
          "\"latest\" valid one in checkpoint.dir; \"auto\": from that, or "
          "from the beginning where there is none");
  command
      ->add_flag("--resume-changed", train->resume_changed,
                 "go on also where that run had other settings, which are "
                 "listed")
      ->needs("--resume");
  AddText(command, "--summary", &train->summary_path, "FILE",
          "write the run's figures to this JSON file");
  AddText(command, "--log-json", &train->log_path, "FILE",
          "write a line of JSON for each step and evaluation to this file "
          "(docs/log-json.md)");
  command->add_flag("--no-parameters-sha256", train->no_parameters_sha256,
                    "do not hash all parameters at the end, which takes a few "
                    "seconds for each billion of them");
  AddText(command, "--trace", &train->trace_path, "FILE",
          "write a trace to this file (docs/trace-format.md)");
  AddText(command, "--trace-steps", &train->trace_steps, "FIRST:LAST",
          "the steps to trace in full; without it the warm-up and "
          "the 12 steps after it");
  AddText(command, "--dashboard", &train->live.dashboard, "PORT",
          "show the run in a browser, at this port of this machine; "
          "0: any free one");
  AddText(command, "--tensorboard", &train->live.tensorboard, "DIR",
          "write TensorBoard's event files to this directory");
}

void AddEvaluate(CLI::App* command, EvaluateArguments* evaluate) {
  AddConfig(command, &evaluate->config_path, &evaluate->overrides);
  AddText(command, "--checkpoint", &evaluate->checkpoint, "CHECKPOINT",
          "the values of this checkpoint file, or of the \"latest\" "
          "valid one in checkpoint.dir; without it, those from which "
          "the configuration's run would start");
  command
      ->add_option("--samples", evaluate->samples,
                   "so many samples, from the first on (default: all)")
      ->type_name("N")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 62));
  AddText(command, "--summary", &evaluate->summary_path, "FILE",
          "write the figures to this JSON file");
  AddJson(command, &evaluate->json);
}

void AddGenerate(CLI::App* command, GenerateArguments* generate) {
  command
      ->add_option("DIR_OR_CHECKPOINT", generate->source,
                   "a Hugging Face directory, a checkpoint, or a directory of "
                   "checkpoints, whose newest it is")
      ->required()
      ->check(NotEmpty());
  CLI::Option* const prompt = command->add_option("--prompt", generate->prompt,
                                                  "what the text begins with");
  prompt->type_name("TEXT");
  CLI::Option* const chat =
      command
          ->add_flag("--chat", generate->chat,
                     "instead of --prompt: a conversation by the model's chat "
                     "template, a line of standard input is what you say")
          ->excludes(prompt);
  command
      ->add_option("--system", generate->system,
                   "with --chat: what the system's message says")
      ->type_name("TEXT")
      ->needs(chat);
  command
      ->add_option("--template", generate->chat_template,
                   "with --chat: the template of this name, where there are "
                   "several")
      ->type_name("NAME")
      ->needs(chat)
      ->check(NotEmpty());
  command
      ->add_option("--context", generate->context,
                   "with --chat: the most tokens of a conversation (default: "
                   "as many as the model knows, at most 4096)")
      ->type_name("N")
      ->needs(chat)
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 24));
  command
      ->add_option("--max-new-tokens", generate->max_new_tokens,
                   "at most so many tokens (default: 64; of an answer with "
                   "--chat: 512)")
      ->type_name("N")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 24));
  command
      ->add_option("--temperature", generate->temperature,
                   "draw tokens, the flatter the higher; 0, the default: "
                   "always take the likeliest")
      ->type_name("T")
      ->check(NumberIn(0.0, 1e6));
  command
      ->add_option("--top-p", generate->top_p,
                   "draw among the likeliest tokens that have this much of the "
                   "probability, above 0 (default: 1, all)")
      ->type_name("P")
      ->check(NumberIn(1e-9, 1.0));
  command->add_option("--seed", generate->seed, "of the draws (default: 0)")
      ->type_name("N");
  command
      ->add_option("--tokenizer", generate->tokenizer,
                   "the directory of a tokenizer, or bytes; without it, the "
                   "model's own, or bytes for a model of 256 tokens")
      ->type_name("DIR|bytes")
      ->check(NotEmpty());
  AddOverrides(command, &generate->overrides);
  command
      ->add_option("--summary", generate->summary_path,
                   "write text, tokens and figures to this JSON file")
      ->type_name("FILE")
      ->excludes(chat)
      ->check(NotEmpty());
}

void AddLaunch(CLI::App* command, LaunchArguments* launch) {
  AddText(command, "--nproc", &launch->num_ranks, "N",
          "how many ranks; without it, as many as the hostfile has slots");
  AddText(command, "--hostfile", &launch->hostfile, "FILE",
          "the machines, a line each: HOST slots=N or HOST:N; without it, "
          "this one");
  AddText(command, "--master-port", &launch->master_port, "PORT",
          "where rank 0 listens; without it, at any free port");
  AddText(command, "--rsh", &launch->remote_shell, "COMMAND",
          "starts a command on another machine, called as COMMAND HOST ...; "
          "without it, ssh -x -T");
  AddText(
      command, "--grace", &launch->grace, "SECONDS",
      "after a signal, how long the ranks may neither end nor save before they "
      "are ended (default: 120)");
  command
      ->add_option("--export", launch->exported,
                   "a variable that ranks on other machines get too; may be "
                   "repeated")
      ->take_all()
      ->allow_extra_args(false)
      ->type_name("NAME");
  command->prefix_command();
  command->footer(
      "castor launch [OPTIONS] CONFIG.json [OPTIONS of castor train]\n"
      "docs/ranks.md tells more.");
}

void AddTokenize(CLI::App* command, TokenizeArguments* tokenize) {
  command
      ->add_option("--tokenizer", tokenize->directory,
                   "the directory of a model, with its tokenizer.json, "
                   "tokenizer.model, spiece.model, vocab.json and merges.txt, "
                   "or vocab.txt; or bytes")
      ->required()
      ->type_name("DIR|bytes")
      ->check(NotEmpty());
  CLI::Option* const adds =
      command->add_flag("--add-special-tokens", tokenize->add_special_tokens,
                        "also those that the tokenizer puts around a text");
  CLI::Option* const decodes =
      command
          ->add_flag("--decode", tokenize->decode,
                     "the other way: lines of ids in, text out")
          ->excludes(adds);
  CLI::Option* const chat =
      command
          ->add_flag("--chat", tokenize->chat,
                     "a file of conversations, a line of JSON each, by the "
                     "tokenizer's chat template")
          ->excludes(adds)
          ->excludes(decodes);
  CLI::Option* const file =
      command
          ->add_option("FILE", tokenize->chat_file,
                       "with --chat: records with \"messages\" or "
                       "\"conversations\"")
          ->needs(chat)
          ->check(NotEmpty());
  chat->needs(file);
  command
      ->add_flag("--as-text", tokenize->as_text,
                 "with --chat: each conversation's text as a JSON string")
      ->needs(chat);
  command
      ->add_flag("--add-generation-prompt", tokenize->add_generation_prompt,
                 "with --chat: end with what begins an assistant's turn")
      ->needs(chat);
  command
      ->add_option("--template", tokenize->chat_template,
                   "with --chat: the template of this name, where there are "
                   "several")
      ->type_name("NAME")
      ->needs(chat)
      ->check(NotEmpty());
}

void AddPlan(CLI::App* command, PlanArguments* plan) {
  command->add_option("CONFIG", plan->config_path,
                      "the run's configuration (JSON)");
  AddText(command, "--model", &plan->model, "NAME",
          "instead of CONFIG: a training of a model of these sizes, "
          "llama-3.1-8b, gpt2-xl ... (docs/planning.md), or of a directory's "
          "config.json");
  AddOverrides(command, &plan->overrides);
  CLI::Option* const world_size =
      command->add_option("--world-size", plan->world_size,
                          "of so many ranks, each on a machine of its own "
                          "(default: as a launcher started, else 1)");
  world_size->type_name("N")->check(CLI::Range(1, 1 << 20));
  MachineArguments& machine = plan->machine;
  AddText(command, "--gpu", &machine.gpu, "NAME",
          "on this GPU, which need not be here: 4090, a100-80, h100-sxm ... "
          "(docs/planning.md)");
  AddText(command, "--ram", &machine.ram, "SIZE",
          "on a machine with so much memory: 64GiB");
  AddText(command, "--host", &machine.host, "NAME",
          "with --gpu: what stands beside it: desktop (the default), server, "
          "dgx-a100 ... (docs/planning.md)");
  AddText(command, "--machine", &machine.file, "FILE",
          "with --gpu: more GPUs and hosts, in the form of "
          "device/machines/machines.json");
  command
      ->add_option("--nodes", machine.nodes,
                   "with --gpu: on so many machines, which a network connects")
      ->type_name("N")
      ->check(CLI::Range(1, 1 << 20))
      ->excludes(world_size);
  command
      ->add_option("--gpus-per-node", machine.gpus_per_node,
                   "with --gpu: so many of them in a machine, a rank each, "
                   "which share its memory and network")
      ->type_name("N")
      ->check(CLI::Range(1, 64))
      ->excludes(world_size);
  command->add_flag("--advise", plan->advise,
                    "also say what would make a step shorter, by planning "
                    "again with each change");
  CLI::Option* const search = command->add_flag(
      "--search", plan->search,
      "plan the fastest ways to train that fit, of the given train_batch_size "
      "and data.sequence_length: micro batch, activations, moments, placement, "
      "on up to the given GPUs; --gpu may name several cards, with commas");
  command
      ->add_option("--price", plan->price,
                   "with --search: what an hour of a GPU costs, for each of "
                   "--gpu, with commas: adds the cost of 1e9 tokens")
      ->type_name("DOLLARS")
      ->needs(search)
      ->check(NotEmpty());
  command
      ->add_option("--write", plan->write,
                   "with --search: write the fastest one's configuration to "
                   "this file, which must not be there yet")
      ->type_name("FILE")
      ->needs(search)
      ->check(NotEmpty());
  AddJson(command, &plan->json);
}

void AddExport(CLI::App* command, ExportArguments* exported) {
  command
      ->add_option("CHECKPOINT", exported->checkpoint,
                   "a checkpoint file, or a directory of them")
      ->required();
  command->add_option("DIR", exported->directory, "the directory to write")
      ->required();
  AddText(command, "--dtype", &exported->dtype, "bf16|fp16|fp32",
          "round the values to these numbers (default: fp32)");
  AddText(command, "--max-shard-size", &exported->max_shard_size, "SIZE",
          "the most of a file's weights, 5GB for one; what does not "
          "fit goes into further files with an index (default: 50GB)");
}

void AddImportConfig(CLI::App* command, ImportConfigArguments* import) {
  command
      ->add_option("FILE", import->files,
                   "a configuration of another system, JSON or YAML; several "
                   "of one run, as Axolotl's and the one of DeepSpeed that it "
                   "names")
      ->required()
      ->check(NotEmpty());
  AddText(command, "-o,--out", &import->out, "FILE",
          "write the configuration to this file, not to standard output");
  AddText(command, "--from", &import->from, "SYSTEM",
          absl::StrCat("whose it is, where its keys do not tell: ",
                       absl::StrJoin(ForeignSystemNames(), ", ")));
  command->add_flag("--partial", import->partial,
                    "leave out what changes results and cannot be had, instead "
                    "of making nothing");
}

void AddTraceView(CLI::App* command, TraceViewArguments* view) {
  AddTraces(command, &view->trace_path, &view->compare_path);
  command
      ->add_option("--port", view->port,
                   "serve at this port of 127.0.0.1; 0: any free one")
      ->type_name("PORT")
      ->check(CLI::Range(0, 65535));
}

void AddTraceExport(CLI::App* command, TraceExportArguments* trace_export) {
  AddTraces(command, &trace_export->trace_path, &trace_export->compare_path);
  command
      ->add_option("OUT", trace_export->out_path,
                   "the file to write; of csv the directory")
      ->required()
      ->check(NotEmpty());
  command
      ->add_option("--format", trace_export->format,
                   "html: the viewer with the trace, one file; svg: a picture "
                   "of one step; perfetto: a file for ui.perfetto.dev; csv: "
                   "tables. Without it, as OUT's name tells: html for .html, "
                   "svg for .svg, perfetto for .json, csv for .csv and "
                   "directories")
      ->type_name("html|svg|perfetto|csv")
      ->check(CLI::IsMember({"html", "svg", "perfetto", "csv"}));
}

// What every rank would refuse is refused once.
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
    std::fprintf(stderr,
                 "castor: nothing is done here: RANK=%d of WORLD_SIZE=%d in "
                 "the environment says that this is one of several ranks, and "
                 "rank 0 does it; if it is none, unset RANK and WORLD_SIZE\n",
                 ranks.rank, ranks.world_size);
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
  resize_command
      ->add_option("PID", resize.pid,
                   "the process: castor train, or any rank of several")
      ->required()
      ->check(CLI::PositiveNumber);
  AddText(resize_command, "--device-memory", &resize.device_memory, "SIZE",
          "the device's budget from the next step on: 12GiB, unlimited");
  resize_command->get_option("--device-memory")->required();

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

  DescribeArguments describe;
  CLI::App* describe_command = app.add_subcommand(
      "describe", "Prints these commands and options for a shell or for man.");
  AddDescribe(describe_command, &describe);

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return Printed(app.exit(error));
    return RefuseUsage(UsageError(
        app, error, "castor", absl::MakeSpan(argv, argc).subspan(argc > 0)));
  }
  if (*train_command) return Train(train);
  if (*launch_command) {
    launch.train = launch_command->remaining();
    const absl::Status status = CheckTrainsArguments(launch.train);
    return status.ok() ? Launch(launch) : Fail(status);
  }
  if (*info_command) return Printed(Info(info));

  // What follows is one process's work. Under a launcher it is rank 0's; a plan
  // is of as many ranks as were started, if nothing else is asked for.
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
  castor::FailWritesInsteadOfEnding();
  castor::cli::TellWhenOutOfMemory();
  return castor::cli::Main(argc, argv);
}
