#include "device/comm/mpi/mpirun_for_test.h"

#include <unistd.h>

#include <cstdlib>

namespace castor {

bool UnderMpirun() { return getenv("OMPI_COMM_WORLD_SIZE") != nullptr; }

void SetMpirunEnvironment() {
  // Open MPI 5 has another mpirun, whose variables begin with PRTE.
  constexpr const char* kVariables[][2] = {
      {"OMPI_ALLOW_RUN_AS_ROOT", "1"},
      {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"},
      {"OMPI_MCA_rmaps_base_oversubscribe", "1"},
      {"PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe"},
      {"OMPI_MCA_hwloc_base_binding_policy", "none"},
      {"PRTE_MCA_hwloc_default_binding_policy", "none"},
      {"OMPI_MCA_mpi_yield_when_idle", "1"},
      // No other host, no ssh.
      {"OMPI_MCA_plm", "isolated"},
      {"OMPI_MCA_oob_tcp_if_include", "lo"},
      {"OMPI_MCA_btl_tcp_if_include", "lo"},
  };
  for (const auto& variable : kVariables) setenv(variable[0], variable[1], 1);
  // Open MPI names its files and shared memory by the process's number, which
  // two sandboxes may have in common.
  if (const char* const own = getenv("TEST_TMPDIR")) {
    // Open MPI 5 asks for a home directory, which a sandbox may not have.
    setenv("HOME", own, 1);
    setenv("TMPDIR", own, 1);
    setenv("OMPI_MCA_orte_tmpdir_base", own, 1);
    setenv("PRTE_MCA_prte_tmpdir_base", own, 1);
    setenv("OMPI_MCA_btl_vader_backing_directory", own, 1);
    setenv("OMPI_MCA_btl_sm_backing_directory", own, 1);
  }
}

std::vector<std::string> MpirunWords(int ranks, int limit_s,
                                     const std::vector<std::string>& program) {
  std::vector<std::string> words = {"mpirun", "--timeout",
                                    std::to_string(limit_s), "-np",
                                    std::to_string(ranks)};
  words.insert(words.end(), program.begin(), program.end());
  return words;
}

void ExecMpirun(int ranks, int limit_s,
                const std::vector<std::string>& program) {
  SetMpirunEnvironment();
  std::vector<std::string> words = MpirunWords(ranks, limit_s, program);
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  execvp(arguments[0], arguments.data());
}

}  // namespace castor
