#!/bin/sh
# The study behind the tables of README.md and the product's defaults, stage by stage, on the reference model:
#
#   tests/eval/study.sh OUT [stage ...]     OUT/<stage>.jsonl; all stages, or those named
#
# Each stage goes on where it was interrupted. On 2 cores the stages take 10 to 60 minutes each. FOLIO_BIN is the folder of
# built daemons; without it, they are built into build/bin. tests/eval/results holds what came of it.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
[ $# -ge 1 ] || { sed -n '2,8s/^# \{0,1\}//p' "$0"; exit 2; }
mkdir -p "$1"
out=$(cd "$1" && pwd)
shift
if [ -z "${FOLIO_BIN:-}" ]; then
  "$root/deploy/setup.sh"
  options=-DFOLIO_TESTS=OFF
  ! grep -qs '^FOLIO_TESTS:BOOL=ON' "$root/build/CMakeCache.txt" || options=
  # shellcheck disable=SC2086
  "$root/deploy/build.sh" "$root/build" -DCMAKE_BUILD_TYPE=Release $options -- folio-manager folio-worker
fi
python=$("$root/tests/python.sh")
FOLIO_MODEL=$("$root/deploy/fetch_model.sh")
export FOLIO_MODEL
cd "$root/tests/eval"

# query_diff as it was when the stages from `protected` to `streamed` were measured. Their records call it query_diff. It had no
# share for the prompt, and compared a page of an answer with 16 keys.
was=query_diff:share=0.5,pool=31,neighbours=2
# And as it was for `fresh`, whose records call it query_diff too.
then=query_diff:share=0.25,pool=31

run() {
  stage=$1
  shift
  "$python" -m folio_eval run --out "$out/$stage.jsonl" --prompts 16 "$@"
}

# What sink_tokens and recent_tokens do: the defaults.
protected() {
  tasks="--tasks needle_prose,needle_4_prose --lengths 1024 --seeds 3"
  run protected $tasks --policies full,random --budgets 384
  run protected $tasks --policies "paged_eviction,$was" --budgets 384 --sink 16 --recent 16,64,128,256
  run protected $tasks --policies "paged_eviction,$was" --budgets 384 --sink 0,64 --recent 16
}

# query_diff's own parameter, on the seeds that it was made with.
share() {
  run share --tasks needle_prose,needle_4_prose:blind --lengths 1024 --seeds 3 --budgets 384 \
    --policies query_diff:share=0.25,pool=31,neighbours=2,$was,query_diff:share=0.75,pool=31,neighbours=2
}

# Every policy, at a quarter and a half of the prompt; fewer prompts where all but the worst answer alike.
policies() {
  set -- --lengths 1024 --budgets 256,512 --policies \
    "full,$was,snap_kv,snap_kv:window=16,pool=31,key_diff,paged_eviction,kv_crush:paged_eviction,kv_crush:key_diff,inverse_key_norm,streaming_llm,random"
  for task in needle_prose needle_4_prose:blind needle_4; do
    run policies --tasks "$task" --seeds 3 --maps needle_prose "$@"
  done
  for task in needle_repeat variable_tracking; do run policies --tasks "$task" --seeds 1 --maps needle_prose "$@"; done
}

# Is query_diff better than PagedEviction and KVCrush? Fresh seeds, once.
confirm() {
  run confirm --tasks needle_prose,needle_4_prose:blind,needle_4 --lengths 2048 --seeds 100-102 \
    --budgets 512,1024 --policies "full,$was,paged_eviction,kv_crush:paged_eviction,random"
}

# KVCrush: three bases, three shares, every anchor, and the bases alone.
crush() {
  list=full,random,paged_eviction,key_diff,snap_kv:window=16,pool=31
  for base in paged_eviction key_diff snap_kv,window=16,pool=31; do
    for share in 0.125 0.25 0.5; do
      for anchor in mean alternating zeros ones random; do
        list=$list,kv_crush:$base,share=$share,anchor=$anchor
      done
    done
  done
  run crush --tasks needle_prose --lengths 512 --seeds 3 --budgets 192 --policies "$list"
}

# query_diff over 17 tokens, on seeds that it was not made with, and as it was before.
fresh() {
  set -- --lengths 2048 --seeds 200-202 --policies "full,$then,paged_eviction,$was"
  run fresh --tasks needle_4_prose:blind --budgets 512,1024 --maps needle_prose "$@"
  run fresh --tasks needle_prose --budgets 256,512 --maps needle_4 "$@"
  run fresh --tasks needle_4_prose:blind --budgets 512,1024 --lengths 2048 --seeds 200-202 --policies "$then" --layers shared
}

# query_diff as it is now, on the prompts of `policies`.
since() {
  for task in needle_prose needle_4_prose:blind needle_4; do
    run since --tasks "$task" --lengths 1024 --seeds 3 --budgets 256,512 --policies query_diff
  done
}

# query_diff as it is now: prompts of 2,048 tokens, on seeds that were used for nothing before.
reach() {
  run reach --tasks needle_prose --lengths 2048 --seeds 306-308 --budgets 256,512 --policies full,query_diff,paged_eviction
  run reach --tasks needle_4_prose:blind --lengths 2048 --seeds 306-308 --budgets 512,1024 --policies full,query_diff,paged_eviction
}

# What only eviction in decode can lose.
decode() {
  run decode --tasks long_generation --lengths 256 --seeds 3 --budgets 512 \
    --policies "full,key_diff,paged_eviction,kv_crush:paged_eviction,streaming_llm,random"
  run decode --tasks long_generation_prompt --lengths 256 --seeds 3 --budgets 512 --policies full,paged_eviction,streaming_llm
  for task in long_generation long_generation_prompt; do
    run decode --tasks $task --lengths 256 --seeds 3 --budgets 512 --policies "$was" --prompt-share 0
  done
}

# Prose that goes on: perplexity and divergence.
prose() {
  run prose --tasks perplexity --lengths 1024 --seeds 1 --budgets 256,512 --policies \
    "full,$was,snap_kv:window=16,pool=31,key_diff,paged_eviction,kv_crush:paged_eviction,streaming_llm,random"
}

# What it costs to compact prompts while they are prefilled. The strides are 2 and 8 in a prompt.
streamed() {
  for task in needle_prose needle_4 needle_4_prose:blind perplexity; do
    run streamed --tasks "$task" --lengths 1024 --seeds 1 --budgets 256,512 --compaction whole,streamed,streamed:128 \
      --policies "full,$was,key_diff,paged_eviction,kv_crush:paged_eviction,inverse_key_norm,streaming_llm"
    run streamed --tasks "$task" --lengths 1024 --seeds 1 --budgets 256 --compaction whole,streamed,streamed:128 \
      --policies random,kv_crush:key_diff,kv_crush:inverse_key_norm
  done
}

# One decision for all layers, a share for the prompt, and quotas for stretches of the text: each alone, and together.
together() {
  set -- --tasks needle_4_prose:blind --lengths 1024 --seeds 300-300 --budgets 0.25 --policies query_diff
  run together "$@" --layers per_layer,shared --segments 1,8
  run together "$@" --protect-ends 0.1
  set -- --tasks three_facts --lengths 256 --seeds 301-301 --budgets 512 --policies query_diff
  run together "$@" --layers per_layer,shared --prompt-share 0,0.25 --segments 1,8
}

# Layers that decide together against layers that decide alone, for every policy.
layers() {
  run layers --tasks needle_prose,needle_4_prose:blind,perplexity --lengths 1024 --seeds 300-300 --budgets 0.25 \
    --layers per_layer,shared --policies \
    "query_diff,snap_kv:window=16,pool=31,key_diff,paged_eviction,kv_crush:paged_eviction,inverse_key_norm,random"
}

# Every policy on every kind of task that the model can do, at an eighth, a quarter and a half. Fresh seeds.
everywhere() {
  for task in needle_prose needle_4_prose:blind kv_retrieval few_shot common_words code_completion dialogue novel_cloze \
    novel_perplexity; do
    run everywhere --tasks "$task" --lengths 1024 --seeds 300-300 --budgets 0.125,0.25,0.5 --policies \
      "full,query_diff,snap_kv:window=16,pool=31,key_diff,paged_eviction,kv_crush:paged_eviction,inverse_key_norm,streaming_llm,random"
  done
}

# Others' policies on the same prompts, in PyTorch (`folio_peers`).
peers() {
  FOLIO_MODEL_HF=$("$root/tests/model/hf_directory.sh")
  others=$("$root/deploy/python_env.sh" "${FOLIO_MODEL_HF%/*}/parity-venv" "$root/tests/parity/requirements.txt")
  "$python" -m folio_peers --out "$out/peers.jsonl" --tasks needle_prose,needle_4_prose:blind --lengths 1024 --seeds 300-300 \
    --budgets 128,256,512 --presses CompactorPress,TOVAPress,ExpectedAttentionPress,KVzipPress --directory "$FOLIO_MODEL_HF" \
    --python "$others"
}

# Bounds: layers keep what the question and the answer will look at, which no policy knows (`folio_trials`).
oracle() {
  set -- --out "$out/oracle.jsonl" --layers per_layer,shared --trials full,later
  "$python" -m folio_trials "$@" --tasks needle_prose --budgets 128 --seeds 300-300
  "$python" -m folio_trials "$@" --tasks three_facts --lengths 256 --budgets 512 --seeds 301-301 --prompts 8
}

# Longer prompts, where the model still can. Fresh seeds.
longer() {
  policies="full,query_diff,snap_kv:window=16,pool=31,paged_eviction,kv_crush:paged_eviction,streaming_llm"
  set -- --seeds 312-312 --policies "$policies" --budgets 0.125,0.25,0.5
  run longer --tasks few_shot,dialogue,speeches_cloze --lengths 2048 "$@"
  run longer --tasks needle_prose,needle_4_prose:blind,few_shot,speeches_cloze --lengths 4096 "$@" --prompts 8
  run longer --tasks needle_prose,needle_4_prose:blind,few_shot --lengths 8192 "$@" --budgets 0.125,0.25 --prompts 8
}

ruler_files() { printf ',ruler:ruler/2048/%s.jsonl' "$@" | cut -c2-; }

# RULER's own tasks, as far as the model can do them. The names of its files are relative to OUT.
ruler() {
  "$root/tests/eval/ruler/ruler.sh" "$out/ruler" 2048
  (
    cd "$out"
    export PYTHONPATH="$root/tests/eval"
    run ruler --lengths 2048 --seeds 1 --budgets 0.25 \
      --tasks "$(ruler_files niah_single_1 niah_single_2 niah_single_3 niah_multikey_1 niah_multivalue niah_multiquery)" \
      --policies "full,query_diff,snap_kv:window=16,pool=31,paged_eviction,kv_crush:paged_eviction"
    run ruler --lengths 2048 --seeds 1 --prompts 8 --policies full \
      --tasks "$(ruler_files niah_multikey_2 niah_multikey_3 vt cwe fwe)"
  )
}

# Which tasks the reference model can do at all, and up to which length.
able() {
  tasks=needle_prose,needle_4_prose:blind,needle_values,variable_tracking,common_words,kv_retrieval,few_shot,code_completion
  tasks=$tasks,dialogue,novel_cloze,speeches_cloze
  run able --tasks "$tasks" --lengths 1024,2048 --seeds 1 --prompts 8 --policies full
  run able --tasks "$tasks" --lengths 4096,8192 --seeds 1 --prompts 4 --policies full
}

# A number in the prompt against numbers in the answer, as the prompt's share of the budget grows. Fresh seeds.
exchange() {
  set -- --tasks three_facts --lengths 256 --seeds 301-301 --budgets 512
  run exchange "$@" --policies full,streaming_llm,random
  run exchange "$@" --policies query_diff,paged_eviction,kv_crush:paged_eviction,key_diff --prompt-share 0,0.25,0.5
}

# The same question with other shares for the prompt, on seeds that are used for choices.
recall_shares() {
  set -- --lengths 256 --budgets 512 --policies query_diff
  run recall_shares "$@" --tasks long_generation --seeds 0-0 --prompt-share 0,0.25,0.3,0.35,0.4,0.45,0.5
  run recall_shares "$@" --tasks long_generation_prompt --seeds 0-0 --prompt-share 0.25,0.3,0.35,0.4,0.45
  run recall_shares "$@" --tasks long_generation,long_generation_prompt --seeds 1-2 --prompt-share 0.3,0.4
}

# The same when query_diff left a half of the budget to the prompt, beside other policies. Fresh seeds. Its records name no share.
recall_half() {
  for task in long_generation long_generation_prompt; do
    run recall_half --tasks $task --lengths 256 --seeds 302-302 --budgets 512 --policies full,paged_eviction,kv_crush:paged_eviction
    run recall_half --tasks $task --lengths 256 --seeds 302-302 --budgets 512 --policies query_diff --prompt-share 0.5
  done
}

# As `recall_half`, with query_diff's share of now. Fresh seeds.
recall() {
  for task in long_generation long_generation_prompt; do
    run recall --tasks $task --lengths 256 --seeds 309-311 --budgets 512 --policies query_diff
    run recall --tasks $task --lengths 256 --seeds 309-309 --budgets 512 --policies paged_eviction,kv_crush:paged_eviction
  done
}

# Whether norms of keys rank anything where the model normalises keys in each head: Gemma 3. FOLIO_GEMMA is the file that
# `deploy/fetch_model.sh gemma` fetches once its terms are accepted, so this stage runs only if it is named.
normed() {
  policies=full,random,streaming_llm,paged_eviction,value_norm,inverse_key_norm,query_diff
  FOLIO_MODEL=${FOLIO_GEMMA:?is the file of deploy/fetch_model.sh gemma}
  run normed --tasks needle_prose --lengths 1024 --seeds 1 --budgets 128,256 --policies $policies
  run normed --tasks needle_4_prose:blind --lengths 1024 --seeds 1 --budgets 256 --policies $policies
  FOLIO_MODEL=$("$root/deploy/fetch_model.sh")
}

# Decode speed of four streams; nothing else may run on the machine.
speed() {
  run speed --tasks decode_speed --lengths 1024 --seeds 1 --budgets 256,512 --policies \
    "full,$was,snap_kv:window=16,pool=31,key_diff,paged_eviction,kv_crush:paged_eviction,streaming_llm,random"
}

[ $# -gt 0 ] || set -- protected share policies confirm fresh since reach crush decode prose streamed together layers everywhere longer \
  ruler peers oracle able exchange recall_shares recall_half recall speed
for stage in "$@"; do
  case $stage in
    protected | share | policies | confirm | fresh | since | reach | crush | decode | prose | streamed | together) "$stage" ;;
    layers | everywhere | longer | ruler | peers | oracle | able | exchange | recall_shares | recall_half | recall | normed | speed) "$stage" ;;
    *) echo "study.sh: no stage $stage" >&2; exit 2 ;;
  esac
done
