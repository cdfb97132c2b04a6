# The everyday commands. `make setup` installs what is needed, once; all others start with it.
#
#   build         build/passnet and all tests             demo    solve the samples of examples/ and report
#   test          all tests of the first tier             soak    the same with full counts, slow
#   gpu           pack for a GPU machine, or run there     bench   benchmarks, recorded under bench/results/
#   lint          formatting, includes, forbidden paths   corpus  everything over the sample corpus
#   differential  native results against torch            release build-release/passnet, to be carried elsewhere

JOBS ?= $(shell nproc)

.PHONY: setup build release demo test soak gpu bench lint corpus differential clean
.DEFAULT_GOAL := build

setup:
	@tools/setup

build: setup
	@cmake --preset dev --log-level=WARNING
	@cmake --build build -j $(JOBS)

release: setup
	@cmake --preset release --log-level=WARNING
	@cmake --build build-release -j $(JOBS) --target passnet
	@tools/check_release

test: build
	@.venv/bin/python tools/test --jobs 2

soak: build
	@cmake --preset asan-ubsan --log-level=WARNING
	@cmake --build build-asan -j $(JOBS) --target fuzz_capture
	@build-asan/tests/fuzz/fuzz_capture examples build-asan/fuzz-failures 600
	@.venv/bin/python tools/test --jobs 2 --soak

lint:
	@tools/lint

demo: build
	@tools/$@

corpus: build
	@.venv/bin/python tools/corpus --real-path

differential: build
	@.venv/bin/python tools/differential

bench: release build
	@PASSNET=build-release/passnet .venv/bin/python tools/bench
	@PASSNET=build-release/passnet .venv/bin/python tools/bench_capture

gpu: release
	@.venv/bin/python tools/gpu_run all

clean:
	rm -rf build build-release build-ci build-asan
