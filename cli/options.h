// Options that several commands have.
#ifndef CASTOR_CLI_OPTIONS_H_
#define CASTOR_CLI_OPTIONS_H_

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace castor::cli {

// Adds --set KEY=VALUE.
void AddOverrides(CLI::App* command, std::vector<std::string>* overrides);

// Adds CONFIG, and --set.
void AddConfig(CLI::App* command, std::string* config,
               std::vector<std::string>* overrides);

// Adds --json, for output that scripts read.
void AddJson(CLI::App* command, bool* json);

// Refuses an empty value. It is most often a shell variable that was not set:
// `--resume ""` must not start a new run.
CLI::Validator NotEmpty();

// Takes a number from `least` to `most`. CLI11's own range takes "nan", too.
CLI::Validator NumberIn(double least, double most);
// An integer from 0 to 2^63 - 1. CLI11 takes a larger one for the largest.
CLI::Validator Seed();

// Adds an option with a text that is not empty; `type` stands for it in the
// help.
void AddText(CLI::App* command, const std::string& option, std::string* value,
             const std::string& type, const std::string& help);

}  // namespace castor::cli

#endif  // CASTOR_CLI_OPTIONS_H_
