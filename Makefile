# Everything is run through here; `make` alone lists the targets.
INVENTORY ?= inventory/virtual
# Large things that are built or downloaded once live outside the checkout.
export ROCKNPU_CACHE ?= $(HOME)/.cache/rocknpu

# Ansible starts with UTF-8 only.
ifneq ($(shell locale charmap 2>/dev/null),UTF-8)
export LC_ALL := C.UTF-8
endif

SCENARIOS = molecule-k3s molecule-daemonset molecule-default
PARTS = molecule-k3s unit molecule-daemonset molecule-default lint sanity pythons standin

SHELL := /bin/sh
.DEFAULT_GOAL := help
.PHONY: help site image pods kubeconfig clean test $(PARTS) molecule bench collection setup installed

VENV = $(shell tests/venv.sh "$(ROCKNPU_CACHE)" 2>/dev/null)
RUN = PATH="$(VENV)/bin:$$PATH"
INVENTORY_IS_THERE = test -e "$(INVENTORY)" || { \
	echo "There is no inventory $(INVENTORY): copy inventory/example there and describe your boards." >&2; exit 2; }
SCENARIO_RUN = $(RUN) ANSIBLE_COLLECTIONS_PATH="$(CURDIR)/.build/installed" PYTHONPATH=tests molecule
EDGE = $(RUN) PYTHONPATH=tests python3 -m virtual_edge
# A line of a recipe that names $(MAKE) itself runs under `make -n` too.
AGAIN = env --unset=MAKEFLAGS --unset=MAKELEVEL $(MAKE)

help:                ## list the targets
	@sed -n 's/^\([a-z]*\):.*## /\1\t/p' Makefile | expand -t 14

setup:               ## the Python environment, and this checkout as a collection
	@tests/venv.sh "$(ROCKNPU_CACHE)" >/dev/null
	@mkdir -p .build/ansible_collections/rocknpu; \
	[ -L .build/ansible_collections/rocknpu/edge ] || rm -rf .build/ansible_collections/rocknpu/edge
	@ln -sfn ../../.. .build/ansible_collections/rocknpu/edge

site: setup          ## boards -> cluster with schedulable NPUs (INVENTORY=inventory/mine for yours)
	@$(INVENTORY_IS_THERE)
	@if [ "$(INVENTORY)" -ef inventory/virtual ]; then $(EDGE) up; fi
	@$(RUN) ansible-playbook -i "$(INVENTORY)" site.yml

image: setup         ## the plugin's container image for both architectures, for device_plugin_mode daemonset
	@$(RUN) ansible-playbook -i "$(INVENTORY)" playbooks/image.yml

pods: setup          ## a pod for each free share of an NPU, and one more that has to wait
	@$(EDGE) pods --kubeconfig "$$($(AGAIN) -s kubeconfig)"

kubeconfig: setup    ## print the path of the cluster's kubeconfig
	@$(INVENTORY_IS_THERE)
	@file=$$($(RUN) ANSIBLE_CALLBACK_RESULT_FORMAT=json ansible 'k3s_server[0]' -i "$(INVENTORY)" \
	    -m ansible.builtin.debug -a 'msg={{ k3s_kubeconfig | default("~/.kube/rocknpu-edge.yaml") | expanduser }}' \
	    | sed -n 's/^ *"msg": "\(.*\)"$$/\1/p'); \
	if [ -e "$$file" ]; then echo "$$file"; else \
	    echo "There is no kubeconfig$${file:+ $$file} of $(INVENTORY) yet: make site brings it." >&2; exit 2; fi

clean: setup         ## remove the virtual boards, their network and cgroup directories; the cache stays
	@$(EDGE) clean

# As many parts at a time as there are cores: with more, what measures time fails now and then. The longest begin, and the
# unit tests' words come last.
test: installed      ## every check; the README says how long it takes
	@rm -f .build/*.log; $(AGAIN) -j$$(nproc) -k $(PARTS:%=part-%); code=$$?; \
	cat .build/unit.log; exit $$code

# Their output goes to a file, because several at a time cannot be read.
part-%: setup
	@echo "make $*: see .build/$*.log"; \
	if $(AGAIN) $* >.build/$*.log 2>&1; then echo "make $*: passed"; \
	else cat .build/$*.log; echo "make $*: failed, see above" >&2; exit 1; fi

# Only of `make test`, which has installed what they need; `make molecule SCENARIO=k3s` is for people.
$(SCENARIOS):
	$(SCENARIO_RUN) test -s $(@:molecule-%=%)

lint: setup          ## ruff, mypy, yamllint, ansible-lint, changelog fragments
	$(RUN) ruff check .
	$(RUN) ruff format --check .
	$(RUN) MYPYPATH=.build mypy -p ansible_collections.rocknpu.edge.plugins.module_utils \
	    -p ansible_collections.rocknpu.edge.plugins.plugin_utils -p ansible_collections.rocknpu.edge.plugins.filter
	cd files/rknpu_plugin && $(RUN) mypy --config-file ../../pyproject.toml -p rknpu_plugin
	$(RUN) MYPYPATH=tests mypy -p virtual_edge
	$(RUN) yamllint -s .
	# A copy of the collection that is installed for this user would hide the checkout.
	$(RUN) ANSIBLE_HOME="$(CURDIR)/.build/ansible-home" ansible-lint --offline
	$(RUN) antsibull-changelog lint

unit: setup          ## tests that need neither root nor containers
	$(RUN) python3 -m pytest --numprocesses 2 --dist loadscope --no-loadscope-reorder

pythons: setup       ## the plugin's tests on every other Python, 3.8 to 3.14, that this machine has
	$(RUN) python3 tests/unit/plugin/run_on_pythons.py

standin: setup       ## the Go tests of the stand-in for k3s
	@cd tests/virtual_edge/k3s_standin; \
	export CGO_ENABLED=0 GOFLAGS= GOWORK=off GOTOOLCHAIN=local \
	    PATH="$(ROCKNPU_CACHE)/go-toolchain/go/bin:/usr/local/go/bin:$$PATH"; \
	command -v go >/dev/null || { echo "There is no Go: make site or make molecule brings it." >&2; exit 2; }; \
	go test $$(go list ./... | grep -v -e /components -e 'k3sstandin$$')

sanity: setup        ## ansible-test sanity on a copy at the path that it demands
	$(RUN) tests/sanity.sh "$(ROCKNPU_CACHE)"

molecule: installed  ## the scenarios on virtual boards, with the collection installed from its archive (SCENARIO=k3s for one)
	$(SCENARIO_RUN) test $(if $(SCENARIO),-s $(SCENARIO),--all)

# What a user has: the collection, built and installed from its archive, and the stand-in for k3s.
installed: setup
	@$(RUN) tests/installed.sh

bench: setup         ## the figures of the plugin and of the site against their bars, one JSON line each
	@$(RUN) python3 tests/bench/run.py; plugin=$$?; $(RUN) python3 tests/bench/site.py && exit $$plugin

collection: setup    ## build the archive for ansible-galaxy
	$(RUN) ansible-galaxy collection build --force --output-path .build
