// Runs a libFuzzer target without libFuzzer, so that any compiler can build it
// and an ordinary test can run a bounded number of inputs.
//
//   TARGET [-runs=N] [-seed=S] [-max_total_time=SECONDS] [-max_len=BYTES]
//          [FILE_OR_DIRECTORY]...
//
// First each file as it is, then N mutations of them, or as many as the time is
// enough for. The same seed and files give the same inputs, in the same order.
// Without -seed it is another one each time, so that many short runs see what
// one long run sees. It is printed; to have all of a run again, however long
// that takes, give it as -seed or as $CASTOR_FUZZ_SEED (0: another each time):
// then there is no limit of time.
//
// When the target dies, or is ended because it takes too long, the input that
// it was at is written to crash-input in $TEST_UNDECLARED_OUTPUTS_DIR or here:
// give it as FILE to see it die again. There is no feedback from coverage: for
// that, build the same target with clang's libFuzzer (see fuzz.bzl).
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);
extern "C" __attribute__((weak)) void __sanitizer_set_death_callback(
    void (*callback)());

namespace {

using Input = std::vector<uint8_t>;

const Input* current = nullptr;
std::string crash_path;

// Says with which seed to repeat a run. Written before there are inputs.
std::string seed_note;

// Calls only what a signal handler may.
void SaveCurrent() {
  if (current == nullptr) return;
  const int fd = open(crash_path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
  if (fd < 0) return;
  const char note[] = "the input is in crash-input\n";
  if (write(fd, current->data(), current->size()) < 0 ||
      write(STDERR_FILENO, note, sizeof(note) - 1) < 0 ||
      write(STDERR_FILENO, seed_note.data(), seed_note.size()) < 0) {
    _exit(1);
  }
  close(fd);
}

void OnSignal(int number) {
  SaveCurrent();
  signal(number, SIG_DFL);
  raise(number);
}

void Run(const Input& input) {
  current = &input;
  // A copy of exactly the size, for AddressSanitizer to guard its end.
  const Input exact(input.begin(), input.end());
  LLVMFuzzerTestOneInput(exact.data(), exact.size());
  current = nullptr;
}

class Mutator {
 public:
  Mutator(uint64_t seed, size_t max_len) : random_(seed), max_len_(max_len) {}

  size_t Below(size_t n) { return n == 0 ? 0 : random_() % n; }

  Input Mutate(const Input& base, const Input& other) {
    Input input = base;
    // Mostly one or two: more, and nothing gets past the first check.
    do {
      MutateOnce(input, other);
    } while (Below(2) == 0);
    if (input.size() > max_len_) input.resize(max_len_);
    return input;
  }

 private:
  void Overwrite(Input& input, size_t at, const void* bytes, size_t size) {
    size = std::min(size, input.size() - at);
    if (size > 0) std::memcpy(input.data() + at, bytes, size);
  }

  void Insert(Input& input, const Input& bytes) {
    input.insert(input.begin() + Below(input.size() + 1), bytes.begin(),
                 bytes.end());
  }

  Input PieceOf(const Input& from) {
    const size_t at = Below(from.size() + 1);
    const size_t size =
        std::min(from.size() - at, Below(Below(4) != 0 ? 16 : 256));
    return Input(from.begin() + at, from.begin() + at + size);
  }

  void MutateOnce(Input& input, const Input& other) {
    static constexpr uint64_t kNumbers[] = {
        0,          1,          2,          0x7f,       0xff,       0x7fff,
        0xffff,     0x7fffffff, 0x80000000, 0xffffffff, 1ull << 32, 1ull << 62,
        1ull << 63, ~0ull,      ~0ull - 7,  100'000'001};
    static constexpr const char* kTexts[] = {"{",
                                             "}",
                                             "[",
                                             "]",
                                             "\"",
                                             ":",
                                             ",",
                                             "0",
                                             "-1",
                                             "1e999",
                                             "null",
                                             "true",
                                             "2.5",
                                             "\\u0000",
                                             "18446744073709551615",
                                             "9223372036854775808"};
    const size_t at = Below(input.size());
    switch (Below(9)) {
      case 0:
        if (!input.empty()) input[at] ^= uint8_t(1u << Below(8));
        break;
      case 1:
        if (!input.empty()) input[at] = uint8_t(random_());
        break;
      case 2:
        if (!input.empty()) input[at] += Below(2) == 0 ? 1 : 255;
        break;
      case 3: {
        const uint64_t number = Below(4) == 0
                                    ? input.size() - Below(16)
                                    : kNumbers[Below(std::size(kNumbers))];
        const size_t width = size_t{1} << Below(4);
        Overwrite(input, at, &number, width);
        break;
      }
      case 4: {
        const char* text = kTexts[Below(std::size(kTexts))];
        const Input bytes(text, text + std::strlen(text));
        if (Below(2) == 0) {
          Insert(input, bytes);
        } else {
          Overwrite(input, at, bytes.data(), bytes.size());
        }
        break;
      }
      case 5: {
        const size_t size =
            std::min(input.size() - at, Below(Below(4) != 0 ? 8 : 256));
        input.erase(input.begin() + at, input.begin() + at + size);
        break;
      }
      case 6:
        Insert(input, PieceOf(input));
        break;
      case 7:
        Insert(input, PieceOf(other));
        break;
      case 8: {
        const Input piece = PieceOf(other);
        Overwrite(input, at, piece.data(), piece.size());
        break;
      }
    }
  }

  std::mt19937_64 random_;
  const size_t max_len_;
};

void Load(const std::string& path, std::vector<Input>& corpus) {
  if (std::filesystem::is_directory(path)) {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(path)) {
      names.push_back(entry.path().string());
    }
    std::sort(names.begin(), names.end());
    for (const std::string& name : names) Load(name, corpus);
    return;
  }
  std::ifstream in(path, std::ios::binary);
  if (!in.is_open()) {
    std::fprintf(stderr, "cannot open %s\n", path.c_str());
    std::exit(2);
  }
  corpus.emplace_back(std::istreambuf_iterator<char>(in),
                      std::istreambuf_iterator<char>());
}

}  // namespace

int main(int argc, char** argv) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point start = Clock::now();
  uint64_t runs = 0;
  uint64_t seed = 0;     // none given
  uint64_t seconds = 0;  // no limit
  size_t max_len = 1 << 16;
  if (const char* given = std::getenv("CASTOR_FUZZ_SEED")) {
    seed = std::strtoull(given, nullptr, 10);
  }
  std::vector<Input> corpus;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    const auto number = [&](const char* flag, auto* out) {
      if (argument.rfind(flag, 0) != 0) return false;
      *out = std::strtoull(argument.c_str() + std::strlen(flag), nullptr, 10);
      return true;
    };
    if (number("-runs=", &runs) || number("-seed=", &seed) ||
        number("-max_total_time=", &seconds) || number("-max_len=", &max_len)) {
      continue;
    }
    Load(argument, corpus);
  }
  const char* outputs = std::getenv("TEST_UNDECLARED_OUTPUTS_DIR");
  crash_path =
      (outputs != nullptr ? std::string(outputs) + "/" : "") + "crash-input";
  // SIGTERM: Bazel's, when a test takes too long.
  for (int number : {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL, SIGTERM}) {
    signal(number, OnSignal);
  }
  if (__sanitizer_set_death_callback != nullptr) {
    __sanitizer_set_death_callback(SaveCurrent);
  }
  auto until = Clock::time_point::max();
  if (seed == 0) {
    // Short, to be typed.
    while (seed == 0) seed = std::random_device()();
    if (seconds > 0) until = start + std::chrono::seconds(seconds);
  }
  seed_note =
      "to have this run again: CASTOR_FUZZ_SEED=" + std::to_string(seed) + "\n";
  std::printf("%zu files, at most %llu mutations, seed %llu\n", corpus.size(),
              static_cast<unsigned long long>(runs),
              static_cast<unsigned long long>(seed));
  std::fflush(stdout);
  for (const Input& input : corpus) Run(input);
  Run({});
  if (corpus.empty()) corpus.emplace_back();

  // Sometimes mutations of mutations, so that faults can add up.
  Mutator mutator(seed, max_len);
  const size_t num_files = corpus.size();
  constexpr size_t kPool = 256;
  uint64_t run = 0;
  for (; run < runs && Clock::now() < until; ++run) {
    // One after the other: the order of arguments is the compiler's choice.
    const size_t base =
        mutator.Below(mutator.Below(4) != 0 ? num_files : corpus.size());
    const size_t other = mutator.Below(corpus.size());
    const Input input = mutator.Mutate(corpus[base], corpus[other]);
    Run(input);
    if (mutator.Below(8) != 0) continue;
    if (corpus.size() < num_files + kPool) {
      corpus.push_back(input);
    } else {
      corpus[num_files + mutator.Below(kPool)] = input;
    }
  }
  std::printf("done: %llu mutations in %.1f s\n",
              static_cast<unsigned long long>(run),
              std::chrono::duration<double>(Clock::now() - start).count());
  return 0;
}
