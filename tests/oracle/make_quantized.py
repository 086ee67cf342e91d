"""What transformers says of the quantised models of quantized_models.py, in float32: writes quantized.json.

The matrices are the numbers that the codes stand for, which numpy computes, rounded to bfloat16 as Folio holds them.

    make_quantized.py > quantized.json
"""

import json
import tempfile

import numpy as np
import quantized_models
import torch
import transformers
from family_models import vocabulary
from make_families import CONTINUATION, PROMPT, decode


def case(form, directory):
    quantized_models.write(form, directory, plain=True)
    model = transformers.AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32, attn_implementation="eager")
    numbers = quantized_models.dequantized(form)
    with torch.no_grad():
        for name, values in model.named_parameters():
            values.copy_(torch.from_numpy(numbers[name]))
    model.eval()
    random = np.random.default_rng(list(form.encode()))
    ids = random.integers(3, len(vocabulary()), PROMPT + CONTINUATION).tolist()
    prompt, continuation = ids[:PROMPT], ids[PROMPT:]
    return {"prompt": prompt, "continuation": continuation, "full": decode(model, prompt, continuation, evicts=False)[0]}


def main():
    cases = {}
    for form in quantized_models.FORMATS:
        with tempfile.TemporaryDirectory() as directory:
            cases[form] = case(form, directory)
    lines = [f"{json.dumps(name)}: {json.dumps(each)}" for name, each in cases.items()]
    print("{\n" + ",\n".join(lines) + "\n}")


if __name__ == "__main__":
    main()
