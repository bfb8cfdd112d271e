"""Runs in an environment with PyTorch, torchvision and torchaudio, conda's or pip's: pictures,
transforms, a ResNet, operators of detection, audio. It needs no network and no files.

    python torch_neighbours.py OUT.npz    writes what was computed, and prints what computed it

On a machine with a GPU it computes there, else on the CPU. torchcodec is used if it is installed.
benchmarks/beside_pip.py compares what two environments write.
"""

import importlib.util
import io
import json
import os
import sys

import numpy as np
import torch
import torchaudio
import torchvision
from PIL import Image
from torchvision.io import decode_image, decode_jpeg, decode_png, decode_webp, encode_jpeg
from torchvision.ops import batched_nms, deform_conv2d, nms, ps_roi_align, roi_align, roi_pool
from torchvision.transforms import v2

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from loaded import loaded

SEED = 7


def picture():
    """An RGB picture that has edges, slopes and noise, as a NumPy array: height, width, channel."""
    random = np.random.default_rng(SEED)
    y, x = np.mgrid[0:240, 0:320]
    slopes = np.stack([x * 255 / 319, y * 255 / 239, (x + y) % 256], axis=-1)
    slopes[60:120, 80:200] = (250, 20, 40)
    return np.clip(slopes + random.normal(0, 8, slopes.shape), 0, 255).astype(np.uint8)


def encoded(form, **options):
    buffer = io.BytesIO()
    Image.fromarray(picture()).save(buffer, form, **options)
    return torch.frombuffer(bytearray(buffer.getvalue()), dtype=torch.uint8)


def pictures(device):
    """Each format through the libraries that the wheel bundles; on a GPU JPEG through nvJPEG."""
    jpeg = encoded("JPEG", quality=90)
    found = {
        "JPEG": decode_jpeg(jpeg),
        "PNG": decode_png(encoded("PNG")),
        "WebP": decode_webp(encoded("WEBP", lossless=True)),
        "GIF": decode_image(encoded("GIF")),
        "JPEG, encoded": encode_jpeg(torch.from_numpy(picture()).permute(2, 0, 1).contiguous()),
    }
    if device == "cuda":
        found["JPEG on the GPU"] = decode_jpeg(jpeg, device="cuda")
    assert np.array_equal(found["PNG"].permute(1, 2, 0).numpy(), picture()), "PNG has no losses"
    assert np.array_equal(found["WebP"].permute(1, 2, 0).numpy(), picture()), "nor has this WebP"
    return found


def transforms(device):
    image = torch.from_numpy(picture()).permute(2, 0, 1).contiguous().to(device)
    torch.manual_seed(SEED)
    steps = {
        "resize": v2.Resize((224, 224), antialias=True),
        "rotate": v2.RandomRotation((30, 30), interpolation=v2.InterpolationMode.BILINEAR),
        "colours": v2.ColorJitter((1.3, 1.3), (0.8, 0.8), (1.5, 1.5), (0.1, 0.1)),
        "blur": v2.GaussianBlur(7, (1.5, 1.5)),
        "normalize": v2.Compose(
            [v2.ToDtype(torch.float32, scale=True), v2.Normalize([0.5] * 3, [0.25] * 3)]
        ),
    }
    return {name: step(image) for name, step in steps.items()}


def resnet(device):
    """A forward and a backward pass with weights that are drawn on the CPU."""
    torch.manual_seed(SEED)
    model = torchvision.models.resnet50(weights=None).to(device).train()
    images = torch.randn(8, 3, 224, 224).to(device)
    found = model(images)
    loss = torch.nn.functional.cross_entropy(found, torch.arange(8).to(device))
    loss.backward()
    return {
        "ResNet-50: classes": found,
        "ResNet-50: loss": loss.reshape(1),
        "ResNet-50: first gradient": model.conv1.weight.grad,
        "ResNet-50: last gradient": model.fc.weight.grad,
    }


def detection(device):
    torch.manual_seed(SEED)
    corners = torch.rand(500, 2) * 200
    boxes = torch.cat([corners, corners + 5 + torch.rand(500, 2) * 60], dim=1).to(device)
    scores = torch.randperm(500).to(device) / 500.0
    labels = (torch.arange(500) % 5).to(device)
    rois = torch.cat([torch.zeros(50, 1, device=device), boxes[:50] / 4], dim=1)
    features = torch.randn(1, 18, 64, 64).to(device).requires_grad_()
    aligned = roi_align(features, rois, (7, 7), sampling_ratio=2)
    (gradient,) = torch.autograd.grad(aligned.square().sum(), features)
    offset = (torch.randn(1, 18, 62, 62) / 2).to(device)
    weight = (torch.randn(4, 18, 3, 3) / 9).to(device)
    return {
        "nms": nms(boxes, scores, 0.4),
        "batched_nms": batched_nms(boxes, scores, labels, 0.4),
        "roi_align": aligned,
        "roi_align: gradient": gradient,
        "roi_pool": roi_pool(features, rois, (7, 7)),
        "ps_roi_align": ps_roi_align(features, rois, (3, 3)),
        "deform_conv2d": deform_conv2d(features, offset, weight),
    }


def audio(device):
    seconds = torch.arange(16000) / 16000
    wave = torch.sin(2 * torch.pi * (200 + 400 * seconds) * seconds).reshape(1, -1).to(device)
    coefficients = torch.tensor([[1.0, -0.9]]).to(device)
    aligned = torch.tensor([[1, 2, 2, 3]], dtype=torch.int32).to(device)
    torch.manual_seed(SEED)
    logs = torch.randn(1, 20, 5).log_softmax(-1).to(device)
    return {
        "resample": torchaudio.functional.resample(wave, 16000, 22050),
        "spectrogram": torchaudio.transforms.Spectrogram(n_fft=512).to(device)(wave),
        "mel spectrogram": torchaudio.transforms.MelSpectrogram(16000, n_fft=512).to(device)(wave),
        "MFCC": torchaudio.transforms.MFCC(16000, melkwargs={"n_mels": 64}).to(device)(wave),
        # Of torchaudio's own compiled module.
        "lfilter": torchaudio.functional.lfilter(
            wave / 4, coefficients[0], coefficients[0].flip(0)
        ),
        "forced alignment": torchaudio.functional.forced_align(logs, aligned)[0],
    }


def codec(device):
    if importlib.util.find_spec("torchcodec") is None:
        return {}
    from torchcodec.decoders import decode_image as decode

    found = {f"torchcodec: {form}": decode(encoded(form)) for form in ("JPEG", "PNG", "WEBP")}
    if device == "cuda":
        from torchcodec.decoders import decode_jpeg as on_gpu

        found["torchcodec: JPEG on the GPU"] = on_gpu(encoded("JPEG"), device="cuda")
    return {name: getattr(image, "data", image) for name, image in found.items()}


def main():
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = False
    found = {}
    for part in (pictures, transforms, resnet, detection, audio, codec):
        found |= part(device)
    arrays = {name: value.detach().cpu().numpy() for name, value in found.items()}
    np.savez(sys.argv[1], **arrays)
    report = {
        "device": torch.cuda.get_device_name() if device == "cuda" else device,
        "torch": torch.__version__,
        "torchvision": torchvision.__version__,
        "torchaudio": torchaudio.__version__,
        "cudnn": torch.backends.cudnn.version() if device == "cuda" else None,
        "loaded": loaded("cu|nv|nccl|torch|c10|jpeg|png|webp|avif"),
    }
    print(json.dumps(report))


if __name__ == "__main__":
    main()
