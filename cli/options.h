// Options that several commands have.
#ifndef CASTOR_CLI_OPTIONS_H_
#define CASTOR_CLI_OPTIONS_H_

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace castor::cli {

// --set KEY=VALUE.
void AddOverrides(CLI::App* command, std::vector<std::string>* overrides);

// CONFIG, and --set.
void AddConfig(CLI::App* command, std::string* config,
               std::vector<std::string>* overrides);

// --json, for what scripts read instead of what people do.
void AddJson(CLI::App* command, bool* json);

// An empty value is most often a shell variable that was not set: `--resume ""`
// must not start a new run.
CLI::Validator NotEmpty();

// Takes a number from `least` to `most`. CLI11's own range takes "nan", too.
CLI::Validator NumberIn(double least, double most);

// An option with a text that is not empty; `type` stands for it in the help.
void AddText(CLI::App* command, const std::string& option, std::string* value,
             const std::string& type, const std::string& help);

}  // namespace castor::cli

#endif  // CASTOR_CLI_OPTIONS_H_
