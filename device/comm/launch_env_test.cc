#include "device/comm/launch_env.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <string>
#include <vector>

#include "absl/strings/match.h"

namespace castor {
namespace {

const Environment kOpenMpi = {{"OMPI_COMM_WORLD_RANK", "5"},
                              {"OMPI_COMM_WORLD_SIZE", "8"},
                              {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                              {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"},
                              {"PMIX_RANK", "5"}};
const Environment kMpich = {{"PMI_RANK", "2"},
                            {"PMI_SIZE", "4"},
                            {"MPI_LOCALRANKID", "0"},
                            {"MPI_LOCALNRANKS", "2"}};
const Environment kTorchrun = {
    {"RANK", "3"},          {"WORLD_SIZE", "4"},
    {"LOCAL_RANK", "1"},    {"LOCAL_WORLD_SIZE", "2"},
    {"MASTER_ADDR", "n17"}, {"MASTER_PORT", "29500"}};
const Environment kSrun = {{"SLURM_STEP_ID", "0"},
                           {"SLURM_PROCID", "6"},
                           {"SLURM_STEP_NUM_TASKS", "7"},
                           {"SLURM_NTASKS", "7"},
                           {"SLURM_LOCALID", "0"},
                           {"SLURM_NODEID", "3"},
                           {"SLURM_STEP_TASKS_PER_NODE", "2(x3),1"}};

Environment With(Environment base, const Environment& more) {
  for (const auto& [name, value] : more) base[name] = value;
  return base;
}
Environment Without(Environment base, const std::string& name) {
  base.erase(name);
  return base;
}

LaunchEnv Detect(const Environment& environment) {
  const absl::StatusOr<LaunchEnv> env = DetectLaunch(environment);
  EXPECT_TRUE(env.ok()) << env.status();
  return env.ok() ? *env : LaunchEnv();
}

void ExpectRefused(const Environment& environment,
                   const std::vector<std::string>& words) {
  const absl::Status status = DetectLaunch(environment).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  for (const std::string& word : words) {
    EXPECT_TRUE(absl::StrContains(status.message(), word))
        << "no \"" << word << "\" in: " << status;
  }
}

TEST(LaunchEnv, ProgramByItselfIsRankZeroOfOne) {
  EXPECT_EQ(Detect({}), LaunchEnv());
  EXPECT_EQ(Detect({{"HOME", "/"}, {"RANK", ""}, {"WORLD_SIZE", ""}}),
            LaunchEnv());
}

TEST(LaunchEnv, RecognisesOpenMpi) {
  EXPECT_EQ(Detect(kOpenMpi), (LaunchEnv{.launcher = Launcher::kOpenMpi,
                                         .over_mpi = true,
                                         .rank = 5,
                                         .world_size = 8,
                                         .local_rank = 1,
                                         .local_size = 4,
                                         .master_address = {},
                                         .run_id = {}}));
}

TEST(LaunchEnv, RecognisesMpich) {
  EXPECT_EQ(Detect(kMpich), (LaunchEnv{.launcher = Launcher::kMpich,
                                       .rank = 2,
                                       .world_size = 4,
                                       .local_rank = 0,
                                       .local_size = 2,
                                       .master_address = {},
                                       .run_id = {}}));
  // srun --mpi=pmi2 says nothing of the machine.
  EXPECT_EQ(Detect({{"PMI_RANK", "2"}, {"PMI_SIZE", "4"}}),
            (LaunchEnv{.launcher = Launcher::kMpich,
                       .rank = 2,
                       .world_size = 4,
                       .local_rank = -1,
                       .local_size = -1,
                       .master_address = {},
                       .run_id = {}}));
}

TEST(LaunchEnv, RecognisesTorchrun) {
  EXPECT_EQ(Detect(kTorchrun), (LaunchEnv{.launcher = Launcher::kTorchrun,
                                          .rank = 3,
                                          .world_size = 4,
                                          .local_rank = 1,
                                          .local_size = 2,
                                          .master_address = "n17",
                                          .master_port = 29500,
                                          .run_id = {}}));
  // One process needs no meeting point.
  EXPECT_EQ(Detect({{"RANK", "0"}, {"WORLD_SIZE", "1"}}).world_size, 1);
}

TEST(LaunchEnv, RecognisesSrun) {
  const LaunchEnv env = Detect(kSrun);
  EXPECT_EQ(env, (LaunchEnv{.launcher = Launcher::kSrun,
                            .rank = 6,
                            .world_size = 7,
                            .local_rank = 0,
                            .local_size = 1,
                            .master_address = {},
                            .run_id = {}}));
  EXPECT_EQ(Detect(With(kSrun, {{"SLURM_PROCID", "3"},
                                {"SLURM_LOCALID", "1"},
                                {"SLURM_NODEID", "1"}}))
                .local_size,
            2);
  EXPECT_EQ(Detect(Without(kSrun, "SLURM_STEP_TASKS_PER_NODE")).local_size, -1);
}

TEST(LaunchEnv, RecognisesCastorLaunch) {
  const Environment base = With(kTorchrun, {{"CASTOR_RUN_ID", "4f"}});
  LaunchEnv expected = Detect(kTorchrun);
  expected.launcher = Launcher::kCastor;
  expected.run_id = "4f";
  EXPECT_EQ(Detect(base), expected);
  // It was started by hand inside another launcher's process.
  EXPECT_EQ(Detect(With(kOpenMpi, base)), expected);
  EXPECT_EQ(Detect(With(kSrun, base)), expected);
  // Rank 0 alone has the socket.
  EXPECT_EQ(Detect(With(base, {{"CASTOR_MASTER_SOCKET", "7"}})), expected);
  EXPECT_EQ(Detect(With(base, {{"RANK", "0"}, {"CASTOR_MASTER_SOCKET", "7"}}))
                .master_socket,
            7);
  ExpectRefused(With(base, {{"RANK", "0"}, {"CASTOR_MASTER_SOCKET", "x"}}),
                {"CASTOR_MASTER_SOCKET=x"});
}

TEST(LaunchEnv, TorchrunsRestartIsAnotherRun) {
  const Environment elastic = With(
      kTorchrun,
      {{"TORCHELASTIC_RUN_ID", "none"}, {"TORCHELASTIC_RESTART_COUNT", "2"}});
  EXPECT_EQ(Detect(elastic).run_id, "none.2");
  // Its agent may have kept the port for its own store.
  EXPECT_FALSE(Detect(elastic).master_is_store);
  EXPECT_TRUE(Detect(With(elastic, {{"TORCHELASTIC_USE_AGENT_STORE", "True"}}))
                  .master_is_store);
  EXPECT_FALSE(
      Detect(With(elastic, {{"TORCHELASTIC_USE_AGENT_STORE", "False"}}))
          .master_is_store);
}

TEST(LaunchEnv, SrunsMasterIsTheStepsFirstNode) {
  const Environment job =
      With(kSrun, {{"SLURM_JOB_ID", "4711"},
                   {"SLURM_JOB_NODELIST", "other1,gpu[07-12,15]"},
                   {"SLURM_STEP_NODELIST", "gpu[07-09,15],login1"}});
  const LaunchEnv env = Detect(job);
  EXPECT_FALSE(env.over_mpi);
  EXPECT_EQ(env.master_address, "gpu07");
  EXPECT_GE(env.master_port, 20'000);
  EXPECT_LT(env.master_port, 32'000);
  EXPECT_EQ(env.run_id, "slurm 4711.0");
  // Every rank finds the same, and the next step another.
  EXPECT_EQ(Detect(With(job, {{"SLURM_PROCID", "2"}, {"SLURM_NODEID", "1"}}))
                .master_port,
            env.master_port);
  EXPECT_NE(Detect(With(job, {{"SLURM_STEP_ID", "1"}})).master_port,
            env.master_port);
  const auto first = [&](const std::string& list) {
    return Detect(With(job, {{"SLURM_STEP_NODELIST", list}})).master_address;
  };
  EXPECT_EQ(first("n1"), "n1");
  EXPECT_EQ(first("n1,n2"), "n1");
  EXPECT_EQ(first("rack[0-1]node[3,5]"), "rack0node3");
  EXPECT_EQ(first("a[1-2]b,c"), "a1b");
  EXPECT_EQ(Detect(Without(job, "SLURM_STEP_NODELIST")).master_address,
            "other1");
  // The user's own variables count.
  const LaunchEnv own = Detect(
      With(job, {{"MASTER_ADDR", "10.0.0.1"}, {"MASTER_PORT", "29500"}}));
  EXPECT_EQ(own.master_address, "10.0.0.1");
  EXPECT_EQ(own.master_port, 29500);
  // Ranks of one machine need no network.
  EXPECT_EQ(Detect(With(job, {{"SLURM_STEP_NUM_TASKS", "7"},
                              {"SLURM_STEP_TASKS_PER_NODE", "7"},
                              {"SLURM_NODEID", "0"}}))
                .master_address,
            "127.0.0.1");
}

TEST(LaunchEnv, SrunGoesOverMpiWherePmixIs) {
  EXPECT_TRUE(Detect(With(kSrun, {{"PMIX_RANK", "6"}})).over_mpi);
  // --mpi=pmi2, which Open MPI does not understand.
  const Environment pmi2 =
      With(kSrun, {{"PMI_RANK", "6"}, {"PMI_SIZE", "7"}, {"PMI_FD", "5"}});
  EXPECT_EQ(Detect(pmi2), Detect(kSrun));
}

TEST(LaunchEnv, MpichGoesOverTcpWhereAMasterIsNamed) {
  const LaunchEnv env =
      Detect(With(kMpich, {{"MASTER_ADDR", "n1"}, {"MASTER_PORT", "29500"}}));
  EXPECT_FALSE(env.over_mpi);
  EXPECT_EQ(env.master_address, "n1");
  EXPECT_EQ(env.master_port, 29500);
}

TEST(LaunchEnv, AllocationWithoutSrunIsNoLauncher) {
  // The variables of sbatch's script and salloc's shell.
  EXPECT_EQ(Detect({{"SLURM_JOB_ID", "17"},
                    {"SLURM_NTASKS", "8"},
                    {"SLURM_PROCID", "0"},
                    {"SLURM_LOCALID", "0"},
                    {"SLURM_NODEID", "0"}}),
            LaunchEnv());
}

TEST(LaunchEnv, InnermostLauncherCounts) {
  // srun started the daemon that started this rank.
  EXPECT_EQ(Detect(With(kSrun, kOpenMpi)), Detect(kOpenMpi));
  EXPECT_EQ(Detect(With(kSrun, kTorchrun)), Detect(kTorchrun));
  EXPECT_EQ(Detect(With(kSrun, kMpich)), Detect(kMpich));
}

TEST(LaunchEnv, TorchrunsVariablesMayRepeatMpiruns) {
  const Environment same = {{"RANK", "5"}, {"WORLD_SIZE", "8"}};
  EXPECT_EQ(Detect(With(kOpenMpi, same)), Detect(kOpenMpi));
}

TEST(LaunchEnv, ContradictionsAreRefused) {
  ExpectRefused(
      With(kOpenMpi, kTorchrun),
      {"contradict", "Open MPI", "rank 5 of 8", "RANK=3", "WORLD_SIZE=4"});
  ExpectRefused(With(kMpich, {{"RANK", "2"}, {"WORLD_SIZE", "8"}}),
                {"contradict", "MPICH"});
}

TEST(LaunchEnv, HalfOfAPairIsRefused) {
  ExpectRefused({{"RANK", "0"}}, {"WORLD_SIZE"});
  ExpectRefused({{"WORLD_SIZE", "2"}}, {"RANK"});
  ExpectRefused(Without(kOpenMpi, "OMPI_COMM_WORLD_RANK"),
                {"OMPI_COMM_WORLD_RANK"});
  ExpectRefused(Without(kMpich, "PMI_SIZE"), {"PMI_SIZE"});
  ExpectRefused(Without(kSrun, "SLURM_PROCID"), {"SLURM_PROCID"});
  ExpectRefused(Without(kTorchrun, "MASTER_ADDR"), {"MASTER_ADDR"});
  ExpectRefused(Without(kTorchrun, "MASTER_PORT"), {"MASTER_PORT"});
  ExpectRefused({{"RANK", "0"}, {"WORLD_SIZE", "2"}}, {"MASTER_ADDR"});
}

TEST(LaunchEnv, NonsenseIsRefusedByName) {
  const auto refuse = [](const Environment& base, const std::string& name,
                         const std::string& value) {
    ExpectRefused(With(base, {{name, value}}), {name + "=" + value});
  };
  for (const std::string value : {"-1", "8", "two", "1.5", "99999999999999"}) {
    refuse(kOpenMpi, "OMPI_COMM_WORLD_RANK", value);
  }
  for (const std::string value : {"0", "-4", "x", "2000000"}) {
    refuse(kOpenMpi, "OMPI_COMM_WORLD_SIZE", value);
    refuse(kTorchrun, "WORLD_SIZE", value);
    refuse(kSrun, "SLURM_STEP_NUM_TASKS", value);
  }
  refuse(kOpenMpi, "OMPI_COMM_WORLD_LOCAL_SIZE", "9");
  refuse(kOpenMpi, "OMPI_COMM_WORLD_LOCAL_RANK", "4");
  refuse(kMpich, "PMI_RANK", "4");
  refuse(kMpich, "MPI_LOCALRANKID", "2");
  refuse(kTorchrun, "RANK", "4");
  refuse(kTorchrun, "LOCAL_RANK", "2");
  for (const std::string value : {"0", "65536", "http"}) {
    refuse(kTorchrun, "MASTER_PORT", value);
  }
  refuse(kSrun, "SLURM_PROCID", "7");
  for (const std::string value :
       {"2(x3", "2(x3),", "x", "2(x0),9", "1(x2)", "2(x3)(x3)", "9(x4)"}) {
    refuse(kSrun, "SLURM_STEP_TASKS_PER_NODE", value);
  }
}

TEST(LaunchEnv, ReadsTheProcesssEnvironment) {
  ASSERT_EQ(setenv("CASTOR_LAUNCH_ENV_TEST", "a=b", 1), 0);
  EXPECT_EQ(CurrentEnvironment().at("CASTOR_LAUNCH_ENV_TEST"), "a=b");
  EXPECT_EQ(CurrentEnvironment().count("CASTOR_NO_SUCH_VARIABLE"), 0u);
}

TEST(LaunchEnv, TakesTheSecretWhoeverStartedIt) {
  const auto env = DetectLaunch({{"RANK", "1"},
                                 {"WORLD_SIZE", "2"},
                                 {"MASTER_ADDR", "node1"},
                                 {"MASTER_PORT", "29500"},
                                 {"CASTOR_SECRET", "a secret"},
                                 {"CASTOR_SECRET_FILE", "/its/file"}});
  ASSERT_TRUE(env.ok()) << env.status();
  EXPECT_EQ(env->secret, "a secret");
  EXPECT_EQ(env->secret_file, "/its/file");
  EXPECT_EQ(DetectLaunch({{"CASTOR_SECRET", "x"}})->secret, "x");
}

}  // namespace
}  // namespace castor
