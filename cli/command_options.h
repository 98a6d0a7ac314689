// The options of each command of castor, as CLI11 reads and lists them.
#ifndef CASTOR_CLI_COMMAND_OPTIONS_H_
#define CASTOR_CLI_COMMAND_OPTIONS_H_

#include <CLI/CLI.hpp>

#include "cli/evaluate/evaluate_command.h"
#include "cli/export/export_command.h"
#include "cli/generate/generate_command.h"
#include "cli/import_config/import_config_command.h"
#include "cli/info/info_command.h"
#include "cli/launch/launch_command.h"
#include "cli/plan/plan_command.h"
#include "cli/replay/replay_command.h"
#include "cli/resize/resize_command.h"
#include "cli/tokenize/tokenize_command.h"
#include "cli/trace/trace_export_command.h"
#include "cli/trace/trace_view_command.h"
#include "cli/train/train_command.h"

namespace castor::cli {

// Each function adds a command's options. Parsing puts their values into the
// arguments, which outlive the command.
void AddReplay(CLI::App* command, ReplayArguments* replay);
void AddTrain(CLI::App* command, TrainArguments* train);
void AddEvaluate(CLI::App* command, EvaluateArguments* evaluate);
void AddGenerate(CLI::App* command, GenerateArguments* generate);
void AddLaunch(CLI::App* command, LaunchArguments* launch);
void AddTokenize(CLI::App* command, TokenizeArguments* tokenize);
void AddPlan(CLI::App* command, PlanArguments* plan);
void AddExport(CLI::App* command, ExportArguments* exported);
void AddImportConfig(CLI::App* command, ImportConfigArguments* import);
void AddTraceView(CLI::App* command, TraceViewArguments* view);
void AddTraceExport(CLI::App* command, TraceExportArguments* trace_export);
void AddResize(CLI::App* command, ResizeArguments* resize);

}  // namespace castor::cli

#endif  // CASTOR_CLI_COMMAND_OPTIONS_H_
