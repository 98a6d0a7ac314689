// A directory with a small text and a config for it, and `castor train` there.
#ifndef CASTOR_TESTS_CLI_CLI_TEST_BASE_H_
#define CASTOR_TESTS_CLI_CLI_TEST_BASE_H_

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/test_files.h"
#include "tests/cli/castor_process.h"

namespace castor::testing {

using Json = nlohmann::json;

// `bytes` of something like English, the same on every call.
std::string SmallText(int64_t bytes);

// A model of two layers of width 16 over text.txt, 6 steps, with dropout,
// clipping, accumulation, decay patterns and checkpoints in "out". All that
// could make two runs differ is on.
Json SmallConfig();

class CliTest : public ::testing::Test {
 protected:
  CliTest();  // writes text.txt

  std::string Path(const std::string& name) const {
    return directory_.path() + "/" + name;
  }
  bool Exists(const std::string& name) const;
  // Names in a directory under Path, sorted; none if it is missing.
  std::vector<std::string> List(const std::string& name) const;

  ProcessResult Castor(const std::vector<std::string>& args) const {
    return RunCastor(args, directory_.path());
  }
  // Writes `config` as run.json and runs `castor train run.json ARGS...`.
  ProcessResult Train(const Json& config,
                      const std::vector<std::string>& args = {}) const;
  void WriteConfig(const Json& config) const;
  // The same as `ranks` ranks under mpirun; see CastorProcess.
  ProcessResult TrainOnRanks(int ranks, const Json& config,
                             const std::vector<std::string>& args = {},
                             const std::string& wrapper = "") const;

  // Trains to success and returns the summary.
  Json Summary(const Json& config, std::vector<std::string> args = {}) const {
    return Summary(0, config, std::move(args));
  }
  Json Summary(int ranks, const Json& config,
               std::vector<std::string> args = {}) const;

  const std::string& directory() const { return directory_.path(); }

 private:
  TemporaryDirectory directory_;
};

// Expects exit code 2 and `errors` lines on standard error, each of which
// starts as Castor's do: more than one only where several things are wrong with
// a configuration.
void ExpectUserError(const ProcessResult& result, int errors = 1);
// Expects the same with exit code 1 and one line.
void ExpectFailure(const ProcessResult& result);

}  // namespace castor::testing

#endif  // CASTOR_TESTS_CLI_CLI_TEST_BASE_H_
