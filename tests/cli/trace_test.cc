// `castor trace`: a trace in a browser, in a file, as tables.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cli/serve/test_client.h"
#include "tests/cli/cli_test_base.h"

namespace castor::testing {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

class Trace : public CliTest {
 protected:
  // Makes the trace of a run of six steps under `sets`.
  void MakeTrace(const std::string& name,
                 const std::vector<std::string>& sets = {}) const {
    std::vector<std::string> args = {"--trace", name};
    for (const std::string& set : sets) {
      args.insert(args.end(), {"--set", set});
    }
    const ProcessResult result = Train(SmallConfig(), args);
    ASSERT_EQ(result.exit_code, 0) << result.err;
    std::filesystem::remove_all(Path("out"));
  }

  // Serves until it goes out of scope, or is signalled.
  std::unique_ptr<CastorProcess> View(std::vector<std::string> args) {
    args.insert(args.begin(), {"trace", "view"});
    auto process = std::make_unique<CastorProcess>(args, directory());
    EXPECT_TRUE(process->WaitForOutput("http://127.0.0.1:"))
        << process->Wait().err;
    EXPECT_TRUE(process->WaitForOutput("\n"));
    url_ = UrlIn(ReadFile(Path("stdout.txt")));
    return process;
  }
  Json ViewJson(int status = 200) const {
    const HttpAnswer answer = HttpGet(url_ + "view.json");
    EXPECT_EQ(answer.status, status) << answer.body;
    EXPECT_EQ(answer.headers.at("content-type"), "application/json");
    return Json::parse(answer.body);
  }

  // The data inside an exported page.
  static Json DataIn(const std::string& page) {
    const std::string open =
        "<script type=\"application/json\" id=\"castor-data\">";
    const size_t at = page.find(open) + open.size();
    return Json::parse(page.substr(at, page.find("</script>", at) - at));
  }

  // Every file and directory but the program's own outputs.
  std::map<std::string, std::string> Files() const {
    std::map<std::string, std::string> files;
    for (const auto& entry :
         std::filesystem::recursive_directory_iterator(directory())) {
      const std::string name = entry.path().filename().string();
      if (name == "stdout.txt" || name == "stderr.txt") continue;
      files[entry.path().string()] =
          entry.is_regular_file() ? ReadFile(entry.path().string()) : "/";
    }
    return files;
  }
  // Exit code 2, one line with all of `parts`, and nothing changed on disk.
  void ExpectRefused(std::vector<std::string> args,
                     const std::vector<std::string>& parts) const {
    args.insert(args.begin(), "trace");
    const auto before = Files();
    const ProcessResult result = Castor(args);
    ExpectUserError(result);
    EXPECT_EQ(result.out, "");
    for (const std::string& part : parts) {
      EXPECT_THAT(result.err, HasSubstr(part));
    }
    EXPECT_TRUE(Files() == before) << "a file has changed: " << result.err;
  }

  std::string url_;
};

TEST_F(Trace, ViewServesThePageAndItsDataAndNothingElse) {
  MakeTrace("run.trace");
  const auto process = View({"run.trace", "--port", "0"});
  const HttpAnswer page = HttpGet(url_);
  EXPECT_EQ(page.status, 200);
  EXPECT_THAT(page.body, HasSubstr("<title>Castor trace</title>"));
  EXPECT_THAT(page.headers.at("content-security-policy"),
              HasSubstr("script-src 'sha256-"));
  const Json data = ViewJson();
  ASSERT_THAT(data["views"], SizeIs(1));
  EXPECT_EQ(data["views"][0]["source"], "run.trace");
  EXPECT_EQ(data["views"][0]["status"], "finished");
  EXPECT_EQ(data["views"][0]["results"]["step"], Json({1, 2, 3, 4, 5, 6}));
  for (const std::string path : {"run.trace", "live.json", "../run.json"}) {
    EXPECT_EQ(HttpGet(url_ + path).status, 404) << path;
  }
  // Nobody gets it without the token, which nobody else on this machine has.
  const int port = PortOf(url_);
  const std::string here = "http://127.0.0.1:" + std::to_string(port) + "/";
  EXPECT_NE(url_, here);
  EXPECT_EQ(HttpGet(here + "view.json").status, 403);
  EXPECT_EQ(HttpSend(port, "GET / HTTP/1.1\r\nHost: a.example\r\n\r\n").status,
            403);
}

TEST_F(Trace, ViewEndsInOrderOnASignal) {
  MakeTrace("run.trace");
  for (const int signal : {SIGINT, SIGTERM}) {
    const auto process = View({"run.trace"});
    // A client that hangs makes no difference.
    const TestConnection hanging(PortOf(url_));
    hanging.Send("GET /view");
    process->Signal(signal);
    const ProcessResult result = process->Wait();
    EXPECT_EQ(result.exit_code, 0);
    EXPECT_EQ(result.err, "");
  }
}

// The file changes as that of a run that goes on does, then as one that was
// replaced.
TEST_F(Trace, ViewReadsAFileAnewThatHasChanged) {
  MakeTrace("whole.trace");
  const std::string whole = ReadFile(Path("whole.trace"));
  // The cut lies within a line, after its first byte.
  const size_t cut = whole.find('\n', whole.size() / 2) + 2;
  WriteFile(Path("run.trace"), whole.substr(0, cut));
  const auto process = View({"run.trace", "--port", "0"});
  const Json half = ViewJson()["views"][0];
  EXPECT_EQ(half["status"], "running or killed");
  EXPECT_EQ(half["truncated"], true);
  WriteFile(Path("run.trace"), whole);
  EXPECT_EQ(ViewJson()["views"][0]["status"], "finished");
  EXPECT_GT(ViewJson()["views"][0]["spans"]["start"].size(),
            half["spans"]["start"].size());
  WriteFile(Path("run.trace"), "no trace");
  EXPECT_THAT(ViewJson(500)["error"].get<std::string>(),
              HasSubstr("run.trace"));
  std::filesystem::remove(Path("run.trace"));
  EXPECT_THAT(ViewJson(500)["error"].get<std::string>(),
              HasSubstr("No such file"));
  WriteFile(Path("run.trace"), whole);
  EXPECT_EQ(ViewJson()["views"][0]["status"], "finished");
}

// A run that goes on writes through a mapping, which changes neither the file's
// size nor, for long, its time.
TEST_F(Trace, ViewReadsAFileAnewThatGrowsWithinItsRoom) {
  MakeTrace("whole.trace");
  const std::string whole = ReadFile(Path("whole.trace"));
  const size_t half = whole.find('\n', whole.size() / 2) + 1;
  const size_t room = whole.size() + 1000;
  const std::string path = Path("run.trace");
  const auto write = [&](const std::string& text) {
    WriteFile(path, text + std::string(room - text.size(), '\0'));
  };
  write(whole.substr(0, half));
  const auto time = std::filesystem::last_write_time(path);
  const auto process = View({"run.trace", "--port", "0"});
  EXPECT_EQ(ViewJson()["views"][0]["status"], "running or killed");
  write(whole);
  std::filesystem::last_write_time(path, time);
  EXPECT_EQ(ViewJson()["views"][0]["status"], "finished");
}

TEST_F(Trace, ViewFollowsARunThatGoesOn) {
  Json config = SmallConfig();
  config["steps"] = 1'000'000;
  config["checkpoint"] = false;
  WriteConfig(config);
  TemporaryDirectory elsewhere;  // of the other program's outputs
  const CastorProcess run(
      {"train", Path("run.json"), "--trace", Path("run.trace")},
      elsewhere.path());
  while (!Exists("run.trace") || ReadFile(Path("run.trace")).size() < 4096) {
  }
  const auto process = View({"run.trace", "--port", "0"});
  size_t steps = 0;
  for (int grown = 0; grown < 3;) {
    const Json view = ViewJson()["views"][0];
    EXPECT_EQ(view["status"], "running or killed");
    const size_t now = view["results"]["step"].size();
    ASSERT_GE(now, steps);
    grown += now > steps;
    steps = now;
  }
}

TEST_F(Trace, ViewTakesAnotherPortThanItsUsualOneIfThatIsTaken) {
  MakeTrace("run.trace");
  const auto first = View({"run.trace"});
  const int port = PortOf(url_);
  const auto second = View({"run.trace"});
  EXPECT_NE(PortOf(url_), port);
  EXPECT_EQ(HttpGet(url_).status, 200);
  // One that was asked for is not exchanged for another.
  ExpectRefused({"view", "run.trace", "--port", std::to_string(port)},
                {"port " + std::to_string(port), "Address already in use"});
}

TEST_F(Trace, TwoAreComparedByBothCommands) {
  MakeTrace("a.trace", {"memory.placement_policy=cuda"});
  MakeTrace("b.trace", {"memory.placement_policy=cpu"});
  const auto process = View({"a.trace", "--compare", "b.trace", "--port", "0"});
  const Json served = ViewJson();
  ASSERT_THAT(served["views"], SizeIs(2));
  EXPECT_EQ(served["views"][0]["source"], "a.trace");
  EXPECT_EQ(served["views"][1]["source"], "b.trace");
  EXPECT_FALSE(served["comparison"]["rows"].empty());
  EXPECT_THAT(served["comparison"]["notes"][0].get<std::string>(),
              HasSubstr("cpu"));
  ASSERT_EQ(Castor({"trace", "export", "a.trace", "both.html", "--compare",
                    "b.trace"})
                .exit_code,
            0);
  EXPECT_EQ(DataIn(ReadFile(Path("both.html"))), served);
}

TEST_F(Trace, ExportWritesOnePageWithAllInIt) {
  MakeTrace("run.trace");
  const ProcessResult result =
      Castor({"trace", "export", "run.trace", "run.html"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("run.html"));
  const std::string page = ReadFile(Path("run.html"));
  EXPECT_THAT(page, Not(HasSubstr("src=\"http")));
  const auto process = View({"run.trace", "--port", "0"});
  EXPECT_EQ(DataIn(page), ViewJson());
}

TEST_F(Trace, ExportChoosesTheFormatByTheNameUnlessItIsSaid) {
  MakeTrace("run.trace");
  std::filesystem::create_directory(Path("there"));
  const auto format = [&](const std::string& out,
                          const std::vector<std::string>& more = {}) {
    std::vector<std::string> args = {"trace", "export", "run.trace", out};
    args.insert(args.end(), more.begin(), more.end());
    const ProcessResult result = Castor(args);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    if (std::filesystem::is_directory(Path(out))) {
      EXPECT_THAT(List(out), Contains("operators.csv"));
      EXPECT_THAT(ReadFile(Path(out + "/steps.csv")), HasSubstr("\r\n"));
      return "csv";
    }
    const std::string text = ReadFile(Path(out));
    if (text.rfind("<!doctype html>", 0) == 0) return "html";
    if (text.rfind("<svg ", 0) == 0) return "svg";
    const Json json = Json::parse(text);
    EXPECT_GT(json["traceEvents"].size(), 100u);
    return "perfetto";
  };
  EXPECT_STREQ(format("a.html"), "html");
  EXPECT_STREQ(format("a"), "html");
  EXPECT_STREQ(format("a.HTM"), "html");
  EXPECT_STREQ(format("a.svg"), "svg");
  EXPECT_STREQ(format("a.json"), "perfetto");
  EXPECT_STREQ(format("a.perfetto"), "perfetto");
  EXPECT_STREQ(format("a.csv"), "csv");
  EXPECT_STREQ(format("b/"), "csv");
  EXPECT_STREQ(format("there"), "csv");
  EXPECT_STREQ(format("c.json", {"--format", "html"}), "html");
  EXPECT_STREQ(format("c.html", {"--format", "perfetto"}), "perfetto");
  EXPECT_STREQ(format("c", {"--format", "csv"}), "csv");
  EXPECT_STREQ(format("c.pdf", {"--format", "svg"}), "svg");
  ExpectRefused({"export", "run.trace", "d.pdf"},
                {"d.pdf", "not exported as .pdf", ".svg"});
  EXPECT_FALSE(std::filesystem::exists(Path("d.pdf")));
  // Over a former one, also through a link, which stays one.
  std::filesystem::create_symlink("a.html", Path("link"));
  EXPECT_STREQ(format("link", {"--format", "perfetto"}), "perfetto");
  EXPECT_TRUE(std::filesystem::is_symlink(Path("link")));
  EXPECT_EQ(ReadFile(Path("a.html")), ReadFile(Path("a.json")));
}

// Runs that were refused, killed, or have not begun are shown like others.
TEST_F(Trace, ExportShowsWhatThereIsOfARun) {
  ASSERT_EQ(Train(SmallConfig(), {"--trace", "refused.trace", "--set",
                                  "memory.device_memory=1KiB"})
                .exit_code,
            2);
  MakeTrace("run.trace");
  const std::string whole = ReadFile(Path("run.trace"));
  WriteFile(Path("killed.trace"), whole.substr(0, whole.size() - 40));
  WriteFile(Path("begun.trace"), whole.substr(0, whole.find('\n') + 1));
  const auto status = [&](const std::string& name) -> std::string {
    const ProcessResult result = Castor({"trace", "export", name, "page.html"});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return DataIn(ReadFile(Path("page.html")))["views"][0]["status"];
  };
  EXPECT_EQ(status("refused.trace"), "refused");
  EXPECT_EQ(status("killed.trace"), "running or killed");
  EXPECT_EQ(status("begun.trace"), "empty");
}

class BadTrace : public Trace {
 protected:
  BadTrace() {
    MakeTrace("run.trace");
    WriteFile(Path("empty"), "");
    WriteFile(Path("text"), "no trace\n");
    WriteFile(Path("binary"), std::string("\x7f"
                                          "ELF\0\0\n\xff",
                                          8));
    WriteFile(Path("other.json"), "{\"a\": [1, 2]}");
    WriteFile(Path("deep"), std::string(100'000, '['));
    const std::string whole = ReadFile(Path("run.trace"));
    const size_t middle = whole.find('\n', whole.size() / 2);
    WriteFile(Path("damaged"), whole.substr(0, middle + 1) + "{\"x\"\n" +
                                   whole.substr(middle + 1));
    std::filesystem::create_directory(Path("directory"));
    std::filesystem::create_symlink("nowhere", Path("dangling"));
    mkfifo(Path("fifo").c_str(), 0600);
  }
};

TEST_F(BadTrace, IsNoneByAllThatReadOne) {
  const std::map<std::string, std::string> bad = {
      {"none", "No such file"},
      {"dangling", "No such file"},
      {"directory", "no regular file"},
      {"fifo", "no regular file"},
      {"/dev/zero", "no regular file"},
      {"text/below", "Not a directory"},
      {"empty", "empty"},
      {"text", "line 1"},
      {"binary", "line 1"},
      {"other.json", "first line"},
      {"deep", "first line"},
      {"damaged", "line "},
      {"", "TRACE"}};
  for (const auto& [name, part] : bad) {
    const std::string shown = name.empty() ? "TRACE" : name;
    ExpectRefused({"view", name}, {shown, part});
    ExpectRefused({"export", name, "out.html"}, {shown, part});
    if (name.empty()) continue;
    ExpectRefused({"export", name, "out.json"}, {shown, part});
    ExpectRefused({"export", name, "out.csv"}, {shown, part});
    ExpectRefused({"view", "run.trace", "--compare", name}, {shown, part});
    ExpectRefused({"export", "run.trace", "out.html", "--compare", name},
                  {shown, part});
  }
}

TEST_F(BadTrace, WouldBeWrittenOverSomethingElse) {
  const auto refused = [&](const std::string& out, const std::string& part,
                           std::vector<std::string> more = {}) {
    more.insert(more.begin(), {"export", "run.trace", out});
    ExpectRefused(more, {out, part});
  };
  refused("run.trace", "the trace itself");
  refused("./directory/../run.trace", "the trace itself");
  refused("text", "the trace itself", {"--compare", "text"});
  refused("fifo", "no regular file");
  refused("/dev/null", "no regular file");
  refused("directory", "no regular file", {"--format", "html"});
  refused("directory", "no regular file", {"--format", "perfetto"});
  refused("text", "no directory", {"--format", "csv"});
  refused("fifo", "no directory", {"--format", "csv"});
  refused("none/out.html", "No such file");
  refused("text/out.html", "Not a directory");
  refused("text/out.csv", "Not a directory");
  std::filesystem::create_directory(Path("directory/waits.csv"));
  refused("directory", "waits.csv is no regular file");
  std::filesystem::create_hard_link(Path("run.trace"), Path("hard"));
  refused("hard", "the trace itself");
}

TEST_F(BadTrace, OnTheCommandLine) {
  ExpectRefused({}, {"subcommand", "view, export", "castor trace --help"});
  ExpectRefused({"show"}, {"unknown subcommand \"show\"", "view, export"});
  ExpectRefused({"--fast"}, {"unknown option \"--fast\""});
  ExpectRefused({"view"}, {"TRACE is required", "castor trace view --help"});
  ExpectRefused({"export"}, {"TRACE", "castor trace export --help"});
  ExpectRefused({"export", "run.trace"}, {"OUT", "castor trace export"});
  ExpectRefused({"export", "run.trace", ""}, {"OUT", "empty"});
  ExpectRefused({"export", "run.trace", "a", "b"}, {"b"});
  ExpectRefused({"export", "run.trace", "a", "--format", "pdf"},
                {"--format", "pdf", "html", "perfetto", "csv"});
  ExpectRefused({"export", "run.trace", "a.csv", "--compare", "run.trace"},
                {"--compare", "csv", "html"});
  ExpectRefused({"view", "run.trace", "--compare", ""}, {"--compare"});
  for (const std::string port : {"-1", "65536", "99999999999", "x", "8o"}) {
    ExpectRefused({"view", "run.trace", "--port", port}, {"--port", port});
  }
  EXPECT_EQ(Castor({"trace", "--help"}).exit_code, 0);
  EXPECT_EQ(Castor({"trace", "view", "--help"}).exit_code, 0);
  EXPECT_EQ(Castor({"trace", "export", "--help"}).exit_code, 0);
}

}  // namespace
}  // namespace castor::testing
