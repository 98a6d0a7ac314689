// The real program as a child process, as a user runs it.
#ifndef CASTOR_TESTS_CLI_CASTOR_PROCESS_H_
#define CASTOR_TESTS_CLI_CASTOR_PROCESS_H_

#include <sys/types.h>

#include <map>
#include <string>
#include <vector>

namespace castor::testing {

struct ProcessResult {
  int exit_code = -1;  // -1: ended by a signal
  int signal = 0;      // 0: none
  std::string out;     // all of standard output
  std::string err;
};

// Standard output and error go to files beside the test's own, so that nothing
// blocks and nothing is lost when the child is killed.
class CastorProcess {
 public:
  // Starts `castor ARGS...` in `directory`, which also takes the two files; as
  // `ranks` ranks under mpirun, if that is not 0. `wrapper`, if not empty, is a
  // shell command that each rank runs with castor and its arguments as "$@".
  CastorProcess(const std::vector<std::string>& args,
                const std::string& directory, int ranks = 0,
                const std::string& wrapper = "");
  ~CastorProcess();  // kills a child that still runs
  CastorProcess(const CastorProcess&) = delete;
  CastorProcess& operator=(const CastorProcess&) = delete;

  // Waits until standard output holds `text`. False: it ended without.
  bool WaitForOutput(const std::string& text);
  void Signal(int signal) const;
  pid_t pid() const { return pid_; }
  // The process ids of the ranks that run now, by rank.
  std::map<int, pid_t> RankPids() const;
  // Waits for it to end by itself, so long. False: it still runs.
  bool EndsWithin(int seconds);
  ProcessResult Wait();

 private:
  bool Running();  // if false, `status_` is known
  const std::string out_path_, err_path_;
  pid_t pid_ = -1;
  bool ended_ = false;
  int status_ = 0;
};

ProcessResult RunCastor(const std::vector<std::string>& args,
                        const std::string& directory, int ranks = 0,
                        const std::string& wrapper = "");

}  // namespace castor::testing

#endif  // CASTOR_TESTS_CLI_CASTOR_PROCESS_H_
