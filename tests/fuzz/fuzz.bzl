"""One rule for a fuzz target: a bounded test, or a libFuzzer binary."""

load("//third_party/precompiled:cc.bzl", "cc_test")

def fuzz_test(name, srcs, deps, corpus, corpus_args, runs = 20000, **kwargs):
    """A cc_test around LLVMFuzzerTestOneInput.

    By default it is linked with standalone_driver.cc and runs the corpus and
    mutations of it, two seconds long, from a seed that is another one each
    time and is printed; CASTOR_FUZZ_SEED=N gives all `runs` of that one:

      CASTOR_FUZZ_SEED=7 bazel test //tests/fuzz:TARGET

    For libFuzzer, with feedback from coverage and no bound (add
    -max_total_time=60 or the like as --test_arg or by hand):

      bazel build --config=fuzz //tests/fuzz:TARGET
      bazel-bin/tests/fuzz/TARGET NEW_CORPUS_DIR tests/fixtures/...

    Args:
      name: of the test.
      srcs: with LLVMFuzzerTestOneInput.
      deps: what is fuzzed.
      corpus: labels of the seeds.
      corpus_args: their paths, files or directories, from the root.
      runs: the most mutations in the test.
      **kwargs: for cc_test.
    """
    cc_test(
        name = name,
        srcs = srcs,
        data = corpus,
        args = ["-runs=%d" % runs, "-max_total_time=2"] + corpus_args,
        linkopts = select({
            "//tests/fuzz:libfuzzer": ["-fsanitize=fuzzer"],
            "//conditions:default": [],
        }),
        deps = deps + select({
            "//tests/fuzz:libfuzzer": [],
            "//conditions:default": ["//tests/fuzz:standalone_driver"],
        }),
        **kwargs
    )
