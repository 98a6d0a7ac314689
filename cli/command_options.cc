#include "cli/command_options.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "cli/options.h"
#include "memory/plan/blocks/kept_blocks.h"
#include "memory/plan/policy/policies.h"
#include "run/config/foreign/foreign_config.h"

namespace castor::cli {
namespace {

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

}  // namespace

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
      ->type_name("N")
      ->check(Seed());
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
          "dgx-a100 ... (docs/planning.md); without, a host that emulates the "
          "device, of a row that castor info --measure printed");
  AddText(command, "--machine", &machine.file, "FILE",
          "more GPUs and hosts for --gpu and --host, in the form of "
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

void AddResize(CLI::App* command, ResizeArguments* resize) {
  command
      ->add_option("PID", resize->pid,
                   "the process: castor train, or any rank of several")
      ->required()
      ->check(CLI::PositiveNumber);
  AddText(command, "--device-memory", &resize->device_memory, "SIZE",
          "the device's budget from the next step on: 12GiB, unlimited");
  command->get_option("--device-memory")->required();
}

}  // namespace castor::cli
