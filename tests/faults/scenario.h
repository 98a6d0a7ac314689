// Scenarios: small versions of what users do with castor, each with a judgement
// of how it ended.
#ifndef CASTOR_TESTS_FAULTS_SCENARIO_H_
#define CASTOR_TESTS_FAULTS_SCENARIO_H_

#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "tests/faults/watched_run.h"

namespace castor::faults {

using Json = nlohmann::json;

// A run of a fraction of a second that does all that a long one does: dropout,
// evaluation, checkpoints of which old ones are removed.
Json TinyConfig();

// Every file under `directory`, by its path from there.
std::map<std::string, std::string> ReadTree(const std::string& directory);

// Returns the steps that the run has reported as saved: a checkpoint has its
// name and its directory was forced to disk after that, or it was printed. The
// first `num_effects` of the log are looked at.
std::set<int64_t> ReportedSteps(const std::vector<EffectRecord>& effects,
                                size_t num_effects);

// Returns "" if it ended as a run may: with 0, or with 1 or 2 and one line.
// Else says what is wrong.
std::string JudgeEnding(const WatchedResult& result);

// Runs `castor train --resume latest` in `directory`, without faults. Returns
// "" if it starts at or after the last of `reported` and ends with `sha256`, or
// finds no checkpoint where none was reported.
std::string JudgeResumed(const std::string& directory,
                         const std::set<int64_t>& reported,
                         const std::string& sha256);

class Scenario {
 public:
  virtual ~Scenario() = default;

  const std::string& name() const { return name_; }
  const std::vector<std::string>& args() const { return args_; }
  // Fills `directory`, in copies of which the command is run again and again.
  virtual void Prepare(const std::string& directory) const = 0;
  // Learns from the undisturbed run in `directory`, a copy of `prepared`. "" if
  // it is as it should be.
  virtual std::string Learn(const WatchedResult& result,
                            const std::string& directory,
                            const std::string& prepared) = 0;
  // Judges a run in which something failed, to standard output or error if
  // `of_output`. May use up the directory. Thread-safe.
  virtual std::string Judge(const WatchedResult& result,
                            const std::string& directory, bool of_output) = 0;

 protected:
  Scenario(std::string name, std::vector<std::string> args)
      : name_(std::move(name)), args_(std::move(args)) {}

 private:
  const std::string name_;
  const std::vector<std::string> args_;
};

// Returns all scenarios in order: a later one need not try the calls that an
// earlier one makes in the same way.
std::vector<std::unique_ptr<Scenario>> AllScenarios();

}  // namespace castor::faults

#endif  // CASTOR_TESTS_FAULTS_SCENARIO_H_
